"""What a batch without transactions does and refuses, on a real broker."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from eo_listener.kafka.target_logs import TargetLog
from eo_listener.model.errors import (
    ForeignWriterError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    TargetRecordsError,
    TopicRecreatedError,
    UnfinishedBatchError,
)
from eo_listener.model.ledger import Applied, Entry, Unexpected
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink, tail
from eo_listener.sinks.kafka.row_identity import HEADER, RowIdentity, writer_of
from eo_listener.sinks.kafka.unfenced import UnfencedBatch
from eo_listener.testing.faults import Killed, broken_off, hooked
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.sinks.kafka.conftest import TP, Place, batch, put, table
from tests.sinks.kafka.made_up_tasks import place_of
from tests.sinks.kafka.records import committed

pytestmark = pytest.mark.kafka


def open_sink(place: Place, **more: Any) -> KafkaSink:
    return place.sink(**{"transactions": False, **more})


def rows(entry: Entry, *, keys: Sequence[str | None] | None = None, **columns: Any) -> pa.Table:
    """A row for each offset of the batch, the last one first."""
    offsets = list(range(*entry.moves[TP].range))
    made = {
        "topic": pa.array([TP.topic] * len(offsets), pa.string()),
        "partition": pa.array([TP.partition] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "value": pa.array([f"row {offset}" for offset in offsets], pa.string()),
    }
    if keys is not None:
        made["key"] = pa.array(keys, pa.string())
    return pa.table({**made, **columns}).take(pa.array(range(len(offsets) - 1, -1, -1)))


def write(sink: KafkaSink, number: int = 0, *, size: int = 6, **more: Any) -> Entry:
    entry = batch(sink.applied(QUERY), number, size=size, **more)
    put(sink, entry, rows(entry))
    return entry


def fell(sink: KafkaSink, entry: Entry, point: str, made: pa.Table | None = None) -> None:
    with broken_off(point), pytest.raises(Killed):
        put(sink, entry, rows(entry) if made is None else made)


def numbers(place: Place) -> list[int]:
    """The offsets of the rows that are there, each as often as it is, in order by partition."""
    return [int(one.value().split()[1]) for one in committed(place.servers, place.target)]


def await_topic(place: Place) -> None:
    """Wait until the broker answers questions about the target."""
    deadline = time.monotonic() + 30
    while not place.topics.exists(place.target):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def require_order(place: Place) -> None:
    by_partition = defaultdict(list)
    for one in committed(place.servers, place.target):
        by_partition[one.partition()].append(int(one.value().split()[1]))
    assert all(found == sorted(found) for found in by_partition.values()), by_partition


def test_a_record_says_which_row_it_is(place: Place) -> None:
    """In a header beside those of the row; without a key it goes where its identity says."""
    sink = open_sink(place)
    entry = batch(sink.applied(QUERY), size=3)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b"1"}], None, []], kind)
    made = rows(entry, keys=["k", None, "k"], headers=headers)
    assert put(sink, entry, made) == Applied(rows=3)
    found = {one.value(): one for one in committed(place.servers, place.target)}
    first, second, third = (found[f"row {number}".encode()] for number in range(3))
    assert first.headers()[0] == ("h", b"1")
    writer = writer_of(sink.key, QUERY)
    assert [RowIdentity.of(one.headers()) for one in (first, second, third)] == [
        RowIdentity(writer, 1, f'["flights",0,{number}]') for number in range(3)
    ]
    assert first.partition() == third.partition()
    assert second.partition() == place_of('["flights",0,1]', 2)
    assert sink.applied(QUERY) == heads_of(entry)


def test_a_driver_that_was_suspended_before_its_batch_began_moves_no_head_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the heads of the batch before to write, and finds that its ledger is an older one."""
    zombie, successor = open_sink(place, id="value"), open_sink(place, id="value")
    other = TopicPartition("flights", 1)

    def entry(number: int, *partitions: TopicPartition, run_id: str = "run-1") -> Entry:
        ranges = {tp: OffsetRange(3 * number, 3 * number + 3) for tp in partitions}
        return entry_of(successor.applied(QUERY), ranges, batch_id=number, run_id=run_id)

    put(zombie, entry(0, TP, other), table("row 0"))
    late = entry(1, TP, other)
    asked = UnfencedBatch.read_targets

    def suspended(self: UnfencedBatch) -> Mapping[str, TargetLog]:
        found = asked(self)
        monkeypatch.setattr(UnfencedBatch, "read_targets", asked)
        put(successor, entry(1, TP, other, run_id="run-2"), table("row 1"))
        put(successor, entry(2, TP, run_id="run-2"), table("row 2"))
        return found

    monkeypatch.setattr(UnfencedBatch, "read_targets", suspended)
    with pytest.raises(ForeignWriterError):
        put(zombie, late, table("row 1"))
    found = successor.applied(QUERY).items()
    assert {tp: head.range.until for tp, head in found} == {TP: 9, other: 6}
    assert place.values() == ["row 0", "row 1", "row 2"]


@pytest.mark.parametrize("point", ["sink.begun", "made-up.sent", "sink.rows-written"])
def test_a_batch_that_was_broken_off_is_finished(place: Place, point: str) -> None:
    """By another driver: what is there is left out, and the order is that of the first try."""
    write(open_sink(place))
    sink = open_sink(place)
    entry = batch(sink.applied(QUERY), 1, size=6, run_id="run-2")
    fell(sink, entry, point)
    before = numbers(place)
    again = open_sink(place)
    later = batch(again.applied(QUERY), 1, size=6, run_id="run-3")
    reached: list[str] = []
    with hooked(reached.append):
        assert put(again, later, rows(later)).rows == 6
    assert ("sink.tail-read" in reached) == (len(before) > 6)
    assert sorted(numbers(place)) == list(range(12))
    require_order(place)
    assert again.applied(QUERY) == heads_of(later)


def test_records_of_others_are_named(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Before the batch that was broken off, among its rows and behind it; none counts as a row."""
    sink = open_sink(place)
    write(sink)
    entry = batch(sink.applied(QUERY), 1, size=6)
    other = Producer({"bootstrap.servers": place.servers, "log_level": 0})

    def intrude(point: str) -> None:
        if point in ("sink.begun", "sink.rows-written"):
            other.produce(place.target, "row 99", partition=1)
            assert other.flush(10) == 0
        if point == "sink.rows-written":
            raise Killed

    with hooked(intrude), pytest.raises(Killed):
        put(sink, entry, rows(entry))
    with caplog.at_level(logging.WARNING, "eo_listener"):
        (found,) = put(sink, entry, rows(entry)).unexpected
    assert (found.kind, found.count, [*found.ranges]) == (
        Unexpected.FOREIGN,
        2,
        [(place.target, 1)],
    )
    assert f"{place.target}-1" in caplog.text
    assert sorted(numbers(place)) == [*range(12), 99, 99]


def test_a_suspended_driver_is_found_out(place: Place) -> None:
    """What it writes when it goes on is named before the next batch, and accepted once."""
    zombie, successor = open_sink(place), open_sink(place)
    entry = batch(zombie.applied(QUERY), size=6, run_id="zombie")
    later = batch({}, size=6, run_id="successor")

    def overtake(point: str) -> None:
        if point == "sink.begun":
            with hooked(lambda _: None):
                put(successor, later, rows(later))

    with hooked(overtake), pytest.raises(ForeignWriterError):
        put(zombie, entry, rows(entry))
    assert sorted(numbers(place)) == sorted([*range(6), *range(6)])
    assert successor.applied(QUERY) == heads_of(later)
    after = batch(heads_of(later), 1, size=2, run_id="successor")
    with pytest.raises(TargetRecordsError, match="6 rows") as wrong:
        put(successor, after, rows(after))
    assert sum(one.until - one.start for one in wrong.value.ranges.values()) >= 6
    assert len(numbers(place)) == 12
    accepting = open_sink(place, on_repeated="accept")
    (found,) = put(accepting, after, rows(after)).unexpected
    assert (found.kind, found.count) == (Unexpected.REPEATED, 6)
    write(successor, 2)  # it is named once


@pytest.mark.parametrize("sizes", [(3, 5), (9, 1)])
def test_another_checkpoint_goes_on(place: Place, sizes: tuple[int, int]) -> None:
    """With other bounds than the batch that was broken off: each row once, all the same."""
    sink = open_sink(place)
    fell(sink, batch(sink.applied(QUERY), size=6), "sink.rows-written")
    for number, size in enumerate(sizes):
        write(sink, number, size=size, run_id="other")
    assert sorted(numbers(place)) == list(range(sum(sizes)))
    write(sink, 2)
    assert sorted(numbers(place)) == list(range(sum(sizes) + 6))


def test_two_rows_of_one_identity_get_other_columns(place: Place) -> None:
    """The other way out that the error names: the batch is written whole, behind what is there."""
    sink = open_sink(place)
    entry = batch(sink.applied(QUERY), size=3)
    made = pa.concat_tables([rows(entry), rows(entry).slice(0, 1)])
    with pytest.raises(PoisonRowError, match='on_repeated="accept"'):
        put(sink, entry, made)
    numbered = made.append_column("n", pa.array(range(4)))
    names = ("topic", "partition", "offset", "n")
    put(open_sink(place, id=names, on_repeated="accept"), entry, numbered)
    # Of the first try some may be there too: it did not wait for them.
    assert not Counter([0, 1, 2, 2]) - Counter(numbers(place))
    later = batch(sink.applied(QUERY), 1, size=1)
    put(open_sink(place, id=names), later, rows(later).append_column("n", pa.array([0])))


def test_a_tail_that_does_not_fit_has_a_way_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another name: the batch is written whole, behind what is there of it."""
    monkeypatch.setattr(tail, "MAX_TAIL", 3)
    sink = open_sink(place)
    entry = batch(sink.applied(QUERY), size=6)
    fell(sink, entry, "sink.rows-written")
    with pytest.raises(SettingsError, match="name="):
        put(sink, entry, rows(entry))
    assert put(open_sink(place, name="other"), entry, rows(entry)).rows == 6
    assert sorted(numbers(place)) == sorted([*range(6), *range(6)])


def test_a_target_that_is_compacted(place: Place) -> None:
    """It may lose the rows by which a replay knows what is there."""
    name = place.topics.create("compacted", 1, cleanup_policy="compact")
    with pytest.raises(SettingsError, match=name):
        write(open_sink(place, topic=name))


def test_a_target_that_was_made_again(place: Place) -> None:
    """While the first batch is written: its rows are all in the new one, each once."""
    sink = open_sink(place)
    entry = batch({}, size=6)

    def recreate(point: str) -> None:
        if point == "sink.rows-written":
            place.topics.delete(place.target)
            place.topics.create_as(place.target, 2)

    with hooked(recreate), pytest.raises(RetriableSinkError, match=place.target):
        put(sink, entry, rows(entry))
    await_topic(place)
    put(sink, entry, rows(entry))
    assert sorted(numbers(place)) == list(range(6))


def test_a_tail_that_kafka_has_deleted(place: Place) -> None:
    """What was in it nobody knows."""
    sink = open_sink(place)
    entry = batch(sink.applied(QUERY), size=6)
    fell(sink, entry, "sink.rows-written")
    place.topics.forget_before(place.target, {0: 1, 1: 1})
    with pytest.raises(TargetRecordsError, match="offsets"):
        put(sink, entry, rows(entry))
    assert sink.applied(QUERY) == {}


def test_a_sink_that_gets_transactions(place: Place) -> None:
    """Goes on where the other ended; but not in the middle of a batch."""
    plain, transactional = open_sink(place), place.sink()
    write(plain)
    entry = batch(plain.applied(QUERY), 1, size=6)
    fell(plain, entry, "made-up.sent")
    with pytest.raises(UnfinishedBatchError, match="transactions=False once more"):
        put(transactional, entry, rows(entry))
    put(plain, entry, rows(entry))
    assert transactional.applied(QUERY) == heads_of(entry)
    later = batch(heads_of(entry), 2, size=2)
    put(transactional, later, rows(later))
    assert plain.applied(QUERY) == transactional.applied(QUERY) == heads_of(later)
    write(plain, 3)
    assert sorted(numbers(place)) == list(range(20))


def test_no_head_is_lost_where_a_sink_gets_transactions(place: Place) -> None:
    """Also of a partition that has no part in the first batch with transactions."""
    before, other = open_sink(place, id="value"), TopicPartition("cancelled", 0)
    for number in (0, 1):
        ranges = {tp: OffsetRange(3 * number, 3 * number + 3) for tp in (TP, other)}
        entry = entry_of(before.applied(QUERY), ranges, batch_id=number)
        put(before, entry, table(f"row {number}"))
    fenced = place.sink()
    put(fenced, batch(fenced.applied(QUERY), 2), table("row 2"))
    found = {tp: head.range.until for tp, head in fenced.applied(QUERY).items()}
    assert found == {TP: 9, other: 6}


def test_a_target_that_was_made_again_when_a_sink_gets_transactions(place: Place) -> None:
    """Its first batch of all was without, and its rows went with the older topic."""
    write(open_sink(place))
    place.topics.delete(place.target)
    place.topics.create_as(place.target, 2)
    await_topic(place)
    fenced = place.sink()
    with pytest.raises(TopicRecreatedError):
        put(fenced, batch(fenced.applied(QUERY), 1), table("row"))


def test_a_header_of_a_newer_release(place: Place) -> None:
    """Stops the batch that has to read it."""
    sink = open_sink(place)
    write(sink)
    newer = Producer({"bootstrap.servers": place.servers, "log_level": 0})
    newer.produce(place.target, b"x", headers=[(HEADER, json.dumps({"v": 2}).encode())])
    assert newer.flush(10) == 0
    with pytest.raises(SinkError, match="newer release"):
        write(sink, 1)


def test_another_driver_has_begun(place: Place) -> None:
    """Between the reading of the ledger and the first row: nothing is written."""
    sink, other = open_sink(place), open_sink(place)
    entry = batch(sink.applied(QUERY), size=6, run_id="one")
    later = batch({}, size=6, run_id="two")

    def overtake(point: str) -> None:
        if point == "sink.ledger-read":
            with hooked(lambda _: None):
                fell(other, later, "sink.begun")

    with hooked(overtake), pytest.raises(ForeignWriterError, match="by this driver"):
        put(sink, entry, rows(entry))
    assert numbers(place) == []
    put(sink, entry, rows(entry))
    assert sorted(numbers(place)) == list(range(6))
