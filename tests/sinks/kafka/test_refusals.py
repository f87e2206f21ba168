"""What a batch is refused for, through the driver on a real broker: what is said, and that nothing
of it was written.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from eo_listener.kafka import producers
from eo_listener.model.errors import (
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    TopicRecreatedError,
)
from eo_listener.model.offsets import OffsetRange
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.kafka.conftest import TP, Place, batch, letters, put, table, write
from tests.sinks.kafka.records import committed

pytestmark = pytest.mark.kafka


def test_a_topic_that_is_missing(place: Place) -> None:
    """A missing target topic is refused at once, and not created."""
    sink = place.sink("nosuch")
    with pytest.raises(SettingsError, match="no topic nosuch"):
        write(sink)
    assert sink.applied(QUERY) == {}


@pytest.mark.parametrize("change", ["recreated", "widened"])
def test_a_topic_that_changes_in_the_middle(place: Place, change: str) -> None:
    """The batch is not committed: records went to a topic, or partitions, of another layout."""
    sink = place.sink()
    entry = batch(sink.applied(QUERY))

    def alter(name: str) -> None:
        if name == "sink.rows-written" and change == "widened":
            place.topics.widen(place.target, 5)
        elif name == "sink.rows-written":
            place.topics.delete(place.target)
            place.topics.create_as(place.target, 2)

    with hooked(alter), pytest.raises(RetriableSinkError, match=place.target):
        put(sink, entry, table("a"))
    put(sink, entry, table("again"))
    assert place.values() == ["again"]


@pytest.mark.parametrize("which", ["dead letters", "ledger"])
def test_another_topic_that_is_recreated_in_the_middle(place: Place, which: str) -> None:
    """A batch whose dead letters or ledger went to a topic that was deleted is not committed."""
    dead = place.topics.create("dead", 1)
    sink = place.sink(dead_letters=dead)
    rows = table("a", "bad", eo_poison=pa.array([None, "bad"]))
    entry = batch(sink.applied(QUERY))

    def recreate(name: str) -> None:
        if name == "sink.ledger-moved":
            topic = dead if which == "dead letters" else place.ledger
            place.topics.delete(topic)
            place.topics.create_as(topic, 1, cleanup_policy="compact")

    with hooked(recreate), pytest.raises(RetriableSinkError):
        put(sink, entry, rows)
    assert place.values() == []
    place.topics.delete(dead)
    place.topics.create_as(dead, 1)
    put(sink, entry, rows)
    assert (place.values(), len(letters(place, dead))) == (["a"], 1)


@pytest.mark.parametrize("in_the_middle", [False, True])
def test_a_topic_that_was_recreated_after_a_batch(place: Place, in_the_middle: bool) -> None:
    """Nothing more is written: what the ledger says is applied was deleted with the older topic."""
    sink = place.sink(name="delays")
    write(sink)
    heads = sink.applied(QUERY)
    entry = batch(heads, 1)

    def recreate(name: str) -> None:
        if name == "sink.rows-written":
            place.topics.delete(place.target)
            place.topics.create_as(place.target, 2)

    if in_the_middle:
        with hooked(recreate), pytest.raises(RetriableSinkError):
            put(sink, entry, table("lost"))
    else:
        recreate("sink.rows-written")
    for one in (sink, place.sink(name="delays")):  # a driver that is started again says it too
        with pytest.raises(TopicRecreatedError) as caught:
            put(one, entry, table("row 1"))
        assert caught.value.ranges == {TP: OffsetRange(3, 6)}
    assert (place.values(), sink.applied(QUERY)) == ([], heads)
    write(place.sink(name="again"))
    assert place.values() == ["row 0"]


def test_a_topic_that_is_given_more_partitions(place: Place) -> None:
    """Partitions may be added between two batches: the next batch writes to all of them."""
    sink = place.sink()
    write(sink)
    place.topics.widen(place.target, 5)
    write(sink, 1, table("last", partition=pa.array([4], pa.int32())))
    found = {one.value(): one.partition() for one in committed(place.servers, place.target)}
    assert found[b"last"] == 4


def test_a_record_without_a_key_for_a_compacted_topic(place: Place) -> None:
    """The brokers refuse it, when the batch is under way; the error says what it lacks."""
    compacted = place.topics.create("compacted", 1, cleanup_policy="compact")
    sink = place.sink(compacted)
    with pytest.raises(SettingsError, match="key"):
        write(sink)
    assert (place.values(compacted), sink.applied(QUERY)) == ([], {})
    write(sink, rows=table("a", key=pa.array(["k"])))
    assert place.values(compacted) == ["a"]


def test_a_record_that_is_too_large(place: Place) -> None:
    """The client refuses it alone, the broker the whole batch; both name what is to be set."""
    rows = table("x" * 1_100_000, "b")
    with pytest.raises(PoisonRowError, match=r"kafka\.max\.request\.size"):
        write(place.sink(), rows=rows)
    sink = place.sink(options={"kafka.max.request.size": "3000000"})
    with pytest.raises(SettingsError, match=r"max\.message\.bytes"):
        write(sink, rows=rows)
    assert (place.values(), sink.applied(QUERY)) == ([], {})
    write(sink)
    assert place.values() == ["row 0"]


def test_a_transaction_timeout_that_brokers_refuse(place: Place) -> None:
    """The error names the argument and the brokers' setting."""
    with pytest.raises(SettingsError, match="transaction_timeout=100000") as caught:
        write(place.sink(transaction_timeout=100_000))
    assert "transaction.max.timeout.ms" in str(caught.value)


def test_a_transaction_that_was_outlived(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka answers as if a successor had come; what is named is the time-out."""
    sink = place.sink(transaction_timeout=20)
    entry = batch(sink.applied(QUERY))

    def overtake(name: str) -> None:
        if name == "sink.ledger-moved":
            settings = {"bootstrap.servers": place.servers, "log_level": 0}
            transactional_id = f"eo-listener/{place.target}/{QUERY}"
            Producer({**settings, "transactional.id": transactional_id}).init_transactions(30)
            monkeypatch.setattr(producers.BatchProducer, "outlived", True)

    with hooked(overtake), pytest.raises(SinkError, match="transaction_timeout=20 s"):
        put(sink, entry, table("a"))
    assert (place.values(), sink.applied(QUERY)) == ([], {})
