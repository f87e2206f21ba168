"""What one transaction of a batch does, how its producer waits, and what is refused, by Kafka."""

from __future__ import annotations

import logging
import time
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.errors import (
    ForeignWriterError,
    PoisonRowError,
    SettingsError,
    SinkError,
    SinkLockedError,
)
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import Applied
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import ledger_topic
from eo_listener.sinks.kafka.ledger import RecordKey
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.groups import positions
from tests.sinks.chapters.store import once
from tests.sinks.kafka.conftest import TP, Place, batch, left_open, letters, put, table, write
from tests.sinks.kafka.frames import HEADERS
from tests.sinks.kafka.records import is_settled

pytestmark = pytest.mark.kafka


def test_a_record_has_all_its_parts(place: Place) -> None:
    """Key, headers and partition arrive as given; equal keys go together."""
    headers = [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, []]
    rows = table(
        "a",
        "b",
        None,
        key=pa.array(["k", None, "k"]),
        headers=pa.array(headers, HEADERS),
        partition=pa.array([None, 1, None], pa.int32()),
    )
    assert write(place.sink(), rows=rows) == Applied(rows=3)
    found = place.by_value()
    assert found[b"a"].headers() == [("h", b"1"), ("h", None)]
    assert (found[b"b"].key(), found[b"b"].partition()) == (None, 1)
    assert found[b"a"].partition() == found[None].partition()  # type: ignore[index]  # a tombstone


def test_several_topics(place: Place) -> None:
    """A row goes to the topic that it names; a batch with a row that names none is refused."""
    other = place.topics.create("other", 1)
    sink = place.sink([place.target, other])
    rows = table("a", "b", topic=pa.array([other, place.target]))
    assert write(sink, rows=rows).rows == 2
    with pytest.raises(PoisonRowError, match="topic"):
        write(sink, 1, table("c", "d", topic=pa.array([other, None])))
    assert (place.values(), place.values(other)) == (["b"], ["a"])


def test_a_predecessor_that_died_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a driver left open is aborted by the next one, whose `applied` does not wait for it."""
    first, second = place.sink(), place.sink()
    write(first)
    entry = batch(first.applied(QUERY), 1)
    with left_open(monkeypatch), pytest.raises(Killed):
        put(first, entry, table("lost"))
    assert second.applied(QUERY) == heads_of(batch({}))
    assert second.moved_by("query-1") == {(second.key, QUERY): heads_of(batch({}))}
    assert place.values(settle=0) == ["row 0"]
    put(second, entry, table("again"))
    assert place.values() == ["again", "row 0"]
    assert second.applied(QUERY) == heads_of(entry)


@pytest.mark.parametrize("point", ["sink.fenced", "sink.copying", "sink.ledger-moved"])
def test_a_suspended_driver_is_fenced(place: Place, point: str) -> None:
    """A driver that goes on after its successor's commit has written nothing, and says why."""
    zombie, successor = place.sink(), place.sink()
    entry, later = batch({}, run_id="zombie"), batch({}, run_id="successor")
    zombie.applied(QUERY)
    with (
        once(point, lambda: put(successor, later, table("successor"))),
        pytest.raises(ForeignWriterError),
    ):
        put(zombie, entry, table("zombie"))
    assert place.values() == ["successor"]
    assert zombie.applied(QUERY) == heads_of(later)


def test_no_reader_waits_for_a_try_that_has_failed(place: Place) -> None:
    """Its transaction is ended at once, and not by its time-out."""
    sink = place.sink()
    write(sink)
    with pytest.raises(PoisonRowError):
        write(sink, 1, table("given up", "b", partition=pa.array([0, 7], pa.int32())))
    assert is_settled(place.servers, place.target)
    assert place.values(settle=0) == ["row 0"]


def test_another_querys_open_transaction(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps nobody from reading who has nothing behind it; else it is waited for, and named."""
    monkeypatch.setattr(ledger_topic, "LEDGER_PARTITIONS", 1)
    sink = place.sink(timeout=1)
    write(sink)
    with left_open(monkeypatch), pytest.raises(Killed):
        put(place.sink(), batch({}, query="it's dead"), table("lost"))
    heads = sink.applied(QUERY)
    assert heads == heads_of(batch({}))
    put(sink, batch(heads, 1), table("row 1"))  # commits behind it
    with pytest.raises(SinkLockedError, match=f"eo-listener/{place.target}/it%27s%20dead"):
        sink.applied(QUERY)
    put(place.sink(), batch({}, query="it's dead"), table("ended"))
    assert sink.applied(QUERY) == heads_of(batch(heads, 1))


def test_the_topic_of_a_ledger(place: Place) -> None:
    """A deleted one is not remembered, one that would lose heads is refused, none made unasked."""
    sink = place.sink()
    write(sink)
    assert sink.applied(QUERY)
    place.topics.delete(place.ledger)
    with pytest.raises(SettingsError, match="create=False") as caught:
        place.sink(create=False).applied(QUERY)
    assert f"--topic {place.ledger} --config cleanup.policy=compact" in str(caught.value)
    assert sink.applied(QUERY) == {}
    place.recreate(place.ledger, 1)
    with pytest.raises(SettingsError, match=r"cleanup\.policy=delete"):
        place.sink().applied(QUERY)


def test_a_foreign_record_in_the_ledger(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """It stops the sink and query whose head it may be; one of another program is only logged."""
    sink, other = place.sink(), place.sink(name="other")
    entry = batch(sink.applied(QUERY))
    place.produce(place.ledger, b"{}", b"mine", partition=3)
    with caplog.at_level(logging.WARNING, "eo_listener"):
        put(sink, entry, table("a"))
        write(sink, 1)
    (told,) = (text for text in caplog.messages if "unreadable records" in text)
    assert f"{place.ledger} has 1 unreadable records" in told
    assert "in partition 3" in told
    sink.applied(QUERY)  # has read its own record of this key: the next is newer
    key = RecordKey(sink.key, QUERY, TP.topic, 0).encode()
    place.produce(place.ledger, b'{"v":2}', key, partition=3)
    with pytest.raises(SinkError, match="format 1"):
        sink.applied(QUERY)
    write(other)


def test_a_group_moves_with_the_batch(place: Place) -> None:
    """Its offsets are committed or not as the rows are, with the listener's own metadata."""
    source = place.topics.create("source", 2)
    group = f"group-of-{source}"
    sink = place.sink(group=group)
    ends = {TopicPartition(source, 0): 5, TopicPartition(source, 1): 0}
    ranges = {tp: OffsetRange(0, until) for tp, until in ends.items()}
    entry = entry_of({}, ranges, topic_id=None)
    with broken_off("sink.ledger-moved"), pytest.raises(Killed):
        put(sink, entry, table("a"))
    assert positions(place.servers, group) == {}
    put(sink, entry, table("a"))
    held = positions(place.servers, group)
    assert {tp: position.offset for tp, position in held.items()} == ends
    written = CommitMetadata.parse(held[TopicPartition(source, 0)].metadata)
    assert written is not None
    assert (written.name, written.batch_id) == (QUERY, 0)


def test_a_group_of_another_cluster(place: Place) -> None:
    """A source that the target's cluster does not have is refused before anything is sent."""
    source = place.topics.create("source", 1)
    sink = place.sink(group="mine")
    for tp in (TopicPartition(source, 0), TP):  # another id than the entry's; no such topic
        with pytest.raises(SettingsError, match="'mine'"):
            put(sink, entry_of({}, {tp: OffsetRange(0, 5)}), table("a"))
    assert place.values() == []


@pytest.mark.parametrize("how", [{}, {"transactions": False, "id": "value"}])
def test_the_end_of_a_batch_does_not_linger(place: Place, how: dict[str, Any]) -> None:
    """As with Java's flush, kafka.linger.ms is for rows that may still come, not for the last."""
    sink = place.sink(timeout=10, options={"kafka.linger.ms": "20000"}, **how)
    begun = time.monotonic()
    write(sink)
    write(sink, 1)
    assert time.monotonic() - begun < 10
    assert place.values() == ["row 0", "row 1"]


def test_rows_of_values_and_keys_alone(place: Place) -> None:
    """They wait for room too, in their order; one that is too large is a letter."""
    topic, dead = place.topics.create("target", 1), place.topics.create("dead", 1)
    options = {"kafka.buffer.memory": "1000000", "kafka.max.request.size": "100000"}
    texts = [f"{at:04}".ljust(150_000 if at == 3000 else 500, "x") for at in range(6000)]
    rows = table(*texts, key=pa.array(["one"] * 6000))
    sink = place.sink(topic, options=options, dead_letters=dead)
    assert write(sink, rows=rows) == Applied(rows=5999, dead_letters=1)
    assert place.values(topic) == [text for text in texts if len(text) == 500]
    (letter,) = letters(place, dead)
    assert "kafka.max.request.size" in letter["reason"]
