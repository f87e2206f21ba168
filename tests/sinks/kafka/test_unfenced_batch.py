"""What is decided about a batch without transactions. No broker; the order of steps is searched in
`tests/model_checking/unfenced`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.kafka.target_logs import TargetLog
from eo_listener.model.errors import (
    RetriableSinkError,
    TargetRecordsError,
    TopicRecreatedError,
    UnfinishedBatchError,
)
from eo_listener.model.ledger import Entry, Unexpected
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import unfenced
from eo_listener.sinks.kafka.ledger import BatchRecord, TargetEnds
from eo_listener.sinks.kafka.row_identity import RowIdentity, writer_of
from eo_listener.sinks.kafka.tail import Findings, TailRecord
from eo_listener.sinks.kafka.unfenced import StoredState, UnfencedHow, begin, finish
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.testing.made_up_entries import QUERY, entry_of

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
OUT = TopicPartition("out", 0)
HOW = UnfencedHow(
    label="topic out",
    writer=writer_of("s", QUERY),
    identity=ORIGIN,
    reads=frozenset({TP, OTHER}),
    accept=False,
)


def entry(start: int, until: int, number: int = 0) -> Entry:
    return entry_of({}, {TP: OffsetRange(start, until)}, batch_id=number)


def logs(end: int, *, start: int = 0, topic_id: str = "id") -> dict[str, TargetLog]:
    return {"out": TargetLog(id=topic_id, ranges={0: OffsetRange(start, end)})}


class Client:
    """Has these records in its target."""

    def __init__(self, *records: TailRecord) -> None:
        self.records = records
        self.asked: list[Mapping[TopicPartition, OffsetRange]] = []

    def read_records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[TailRecord]:
        self.asked.append(ranges)
        return [one for one in self.records if one.offset in range(*ranges[one.partition])]


class Steps(Client):
    """All that a batch asks for; its ledger holds `batch`. What it was told is kept."""

    def __init__(
        self, batch: BatchRecord | None, *records: TailRecord, topic_id: str | None = "id"
    ) -> None:
        super().__init__(*records)
        self.batch = batch
        self.begun: list[BatchRecord] = []
        self.there: Mapping[str, Any] = {}
        self.rows: frozenset[str] = frozenset()  # identities of the batch
        self.writes = 0
        end = max([10, *(one.offset + 1 for one in records)])
        if batch is not None and batch.size is not None:
            end += batch.size
        self.logs = {"out": TargetLog(id=topic_id, ranges={0: OffsetRange(0, end)})}

    def read_ledger(self, _: str) -> StoredState:
        return StoredState({}, self.batch)

    def read_targets(self) -> Mapping[str, TargetLog]:
        return self.logs

    def write_begun(self, record: BatchRecord) -> None:
        self.begun.append(record)

    def absent(self, there: dict[str, Any]) -> dict[str, Any]:
        return {values: place for values, place in there.items() if values not in self.rows}

    def write_rows(self, _: int, there: dict[str, Any]) -> int:
        self.writes += 1
        self.there = dict(there)
        there.clear()
        return 1

    def write_applied(self, record: BatchRecord) -> None:
        pass


def row(offset: int, at: int, batch: int = 1) -> TailRecord:
    return TailRecord(OUT, at, RowIdentity(HOW.writer, batch, f'["flights",0,{offset}]'))


def kinds(found: Findings) -> dict[Unexpected, int]:
    return {one.kind: one.count for one in found.records()}


def finished(until: int = 5, size: int = 5, end: int = 10) -> BatchRecord:
    return finish(begin(entry(0, until), None, logs(end), ORIGIN), size)


def test_a_batch_after_a_finished_one() -> None:
    """Has the next number, and the ends of now."""
    before = finished()
    assert (before.number, before.is_finished) == (1, True)
    record = begin(entry(5, 9, 1), before, logs(15), ORIGIN)
    assert (record.number, record.since) == (2, {"out": TargetEnds("id", {0: 15})})
    assert record.left == record.moves == {TP: OffsetRange(5, 9)}
    assert record.heads() == {}


def test_a_batch_that_is_repeated() -> None:
    """Keeps its number and its ends, whatever the target has now."""
    before = begin(entry(0, 5), None, logs(10), ORIGIN)
    record = begin(entry(0, 5), before, logs(13), ORIGIN)
    assert (record.number, record.since, record.left) == (1, before.since, before.left)


@given(st.integers(1, 30), st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_other_bounds_come_to_an_end(until: int, sizes: list[int]) -> None:
    """The ends stay as long as anything of the batch that was broken off is left, and no longer."""
    record = begin(entry(0, until), None, logs(10), ORIGIN)
    start = 0
    for number, size in enumerate(sizes):
        before = record
        record = begin(entry(start, start + size, number), before, logs(20 + number), ORIGIN)
        if start < until:
            assert (record.number, record.since) == (1, {"out": TargetEnds("id", {0: 10})})
        record = finish(record, 0)
        start += size
        assert record.is_finished == (start >= until)
        if not record.is_finished:
            assert record.left == {TP: OffsetRange(start, until)}
        elif start - size >= until:
            return


def test_a_topic_that_was_made_again() -> None:
    """All that it holds was written since the batch began; a partition that is new, too."""
    before = begin(entry(0, 5), None, logs(10), ORIGIN)
    record = begin(entry(0, 5), before, logs(3, topic_id="other"), ORIGIN)
    assert record.since == {"out": TargetEnds("other", {})}
    ranges, gone = unfenced.tail_ranges(record.since, logs(3, topic_id="other"))
    assert (ranges, gone) == ({OUT: OffsetRange(0, 3)}, {})
    wider = {"out": TargetLog(id="id", ranges={0: OffsetRange(0, 10), 1: OffsetRange(0, 4)})}
    ranges, _ = unfenced.tail_ranges(before.since, wider)
    assert ranges == {TopicPartition("out", 1): OffsetRange(0, 4)}


def test_a_target_with_as_many_records_as_were_written() -> None:
    """Is not read: there is room for nothing else. Nor does it matter that they have aged."""
    client = Client()
    for start in (0, 12, 15):
        found = check(client, finished(), logs(15, start=start))
        assert found.records() == ()
    assert client.asked == []


def check(client: Any, before: BatchRecord, now: Any) -> Findings:
    return unfenced.check_finished(client, before, now, HOW)


def test_a_target_with_more_records() -> None:
    """Is read, and each that is too many is named by what it is."""
    rows = [row(offset, 10 + offset) for offset in range(5)]
    more = [row(2, 15), row(7, 16, batch=9), TailRecord(OUT, 17, None)]
    found = check(Client(*rows, *more), finished(), logs(18))
    assert kinds(found) == {Unexpected.REPEATED: 1, Unexpected.LATE: 1, Unexpected.FOREIGN: 1}
    with pytest.raises(TargetRecordsError, match="1 rows that were there before") as caught:
        unfenced.refuse_found(found, entry(5, 6), HOW, "behind batch 0")
    assert caught.value.ranges == {OUT: OffsetRange(15, 17)}
    accepting = replace(HOW, accept=True)
    unfenced.refuse_found(found, entry(5, 6), accepting, "behind batch 0")


def test_records_of_others_alone_stop_no_batch() -> None:
    """They are named in the log."""
    rows = [row(offset, 11 + offset) for offset in range(5)]
    found = check(Client(TailRecord(OUT, 10, None), *rows), finished(), logs(16))
    assert kinds(found) == {Unexpected.FOREIGN: 1}
    unfenced.refuse_found(found, entry(5, 6), HOW, "behind batch 0")


@pytest.mark.parametrize(("end", "lost"), [(13, 2), (10, 5), (8, 7)])
def test_a_target_with_fewer_records(end: int, lost: int) -> None:
    """Has lost what was acknowledged."""
    rows = [row(offset, 10 + offset) for offset in range(5)]
    found = check(Client(*rows), finished(), logs(end))
    assert kinds(found) == {Unexpected.LOST: lost}


def test_a_tail_that_has_aged() -> None:
    """In a batch that is repeated it may have been its rows."""
    record = begin(entry(0, 5), None, logs(10), ORIGIN)
    client: Any = Client(row(3, 13))
    tail, size = unfenced.read_tail(client, record, logs(14, start=13), HOW)
    assert (list(tail.rows), size) == (['["flights",0,3]'], 4)
    assert kinds(tail.findings) == {Unexpected.LOST: 3}
    tail, _ = unfenced.read_tail(client, record, logs(14, start=14), HOW)
    assert kinds(tail.findings) == {Unexpected.LOST: 4}


def is_finished_by(before: BatchRecord, now: Entry, **more: Any) -> bool:
    there = more.pop("logs", logs(10))
    return unfenced.is_finished_by(before, now, there, replace(HOW, **more))


def test_a_batch_that_cannot_finish_another() -> None:
    """Other columns, other topics; other bounds only where the identity is not the source's own."""
    before = begin(entry(0, 5), None, logs(10), ORIGIN)
    assert is_finished_by(before, entry(0, 3))
    assert is_finished_by(before, entry(0, 9))
    with pytest.raises(UnfinishedBatchError, match="are known by"):
        is_finished_by(before, entry(0, 5), identity=("value",))
    with pytest.raises(UnfinishedBatchError, match="the sink has no more"):
        is_finished_by(before, entry(0, 5), logs={})
    own = replace(before, identity=("value",))
    assert is_finished_by(own, entry(0, 5), identity=("value",))
    with pytest.raises(UnfinishedBatchError, match="rows of one identity may differ") as caught:
        is_finished_by(own, entry(0, 3), identity=("value",))
    assert caught.value.ranges == {TP: OffsetRange(0, 5)}
    assert not is_finished_by(own, entry(0, 3), identity=("value",), accept=True)


def test_a_batch_of_a_topic_that_was_created_again() -> None:
    """Its offsets are other records: what is there of the older ones is not taken for them."""
    before = begin(entry(0, 5), None, logs(10), ORIGIN)
    now = entry_of({}, {TP: OffsetRange(0, 8)}, topic_id="a newer one")
    with pytest.raises(UnfinishedBatchError, match="flights is not what it has read"):
        is_finished_by(before, now)
    assert is_finished_by(before, entry_of({}, {TP: OffsetRange(0, 8)}, topic_id=None))
    client = Steps(before, row(0, 10), row(1, 11))
    with pytest.raises(UnfinishedBatchError, match="not what it has read"):
        unfenced.write_unfenced(client, now, HOW)
    assert client.begun == []


def test_a_batch_of_partitions_that_are_read_no_more() -> None:
    """Is not left unfinished for ever, while each batch reads back all that came since."""
    both = entry_of({}, {TP: OffsetRange(0, 5), OTHER: OffsetRange(0, 5)})
    before = begin(both, None, logs(10), ORIGIN)
    with pytest.raises(UnfinishedBatchError, match="which the query reads no more"):
        is_finished_by(before, entry(0, 5), reads=frozenset({TP}))


def test_a_batch_that_is_given_up() -> None:
    """Where that is accepted the next one is written whole, behind what is there of it."""
    before = begin(entry(0, 5), None, logs(10), ("value",))
    client = Steps(before, *(row(offset, 10 + offset) for offset in range(3)))
    how = replace(HOW, identity=("value",), accept=True)
    unfenced.write_unfenced(client, entry(0, 3), how)
    (begun,) = client.begun
    assert (begun.number, begun.left) == (2, {TP: OffsetRange(0, 3)})
    assert begun.since == {"out": TargetEnds("id", {0: 13})}
    assert client.there == {}


def test_a_target_that_was_created_again_between_batches() -> None:
    """Its rows are gone; before the first batch is over it had none that count."""
    client = Steps(finished(), topic_id="a newer one")
    with pytest.raises(TopicRecreatedError, match="topic out was deleted and created again"):
        unfenced.write_unfenced(client, entry(5, 9, 1), HOW)
    unfenced.write_unfenced(client, entry(5, 9, 1), replace(HOW, accept=True))
    unfenced.write_unfenced(Steps(finished(), topic_id=None), entry(5, 9, 1), HOW)
    first = begin(entry(0, 5), None, logs(10), ORIGIN)
    unfenced.write_unfenced(Steps(first, topic_id="a newer one"), entry(0, 5), HOW)


def test_a_topic_that_changes_in_the_middle() -> None:
    """The batch is tried again."""
    unfenced.refuse_changed(logs(3), logs(9), HOW)
    wider = {"out": TargetLog(id="id", ranges={0: OffsetRange(0, 3), 1: OffsetRange(0, 0)})}
    for now in (logs(3, topic_id="other"), {}, wider):
        with pytest.raises(RetriableSinkError, match="created again, or got more partitions"):
            unfenced.refuse_changed(logs(3), now, HOW)


def test_rows_that_an_earlier_part_of_the_batch_has() -> None:
    """A batch that was broken off may be finished by two: the second does not have the first's."""
    done = entry(0, 3)
    there = {f'["flights",0,{offset}]': (OUT, 10 + offset) for offset in (1, 2, 4)}
    found = unfenced.not_of_batch(there, {TP: done.head(TP)}, HOW)
    assert [(one.kind, one.count, one.ranges) for one in found.records()] == [
        (Unexpected.UNKNOWN, 1, {OUT: OffsetRange(14, 15)})
    ]
    own = replace(HOW, identity=("value",))
    assert kinds(unfenced.not_of_batch(there, {TP: done.head(TP)}, own)) == {Unexpected.UNKNOWN: 3}


def test_identities_that_change_stop_a_batch_before_it_is_sent() -> None:
    """Else each start would write all of its rows once more; where it is accepted, it is."""
    before = begin(entry(0, 3), None, logs(10), ORIGIN)
    client = Steps(before, *(row(offset, 10 + offset) for offset in range(3)))
    client.rows = frozenset(f'["flights",0,{offset}]' for offset in range(2))
    for _ in range(2):
        with pytest.raises(TargetRecordsError, match="1 rows that their batch no longer") as caught:
            unfenced.write_unfenced(client, entry(0, 3), HOW)
        assert "identity of a row changes" in str(caught.value)
        assert caught.value.ranges == {OUT: OffsetRange(12, 13)}
    assert client.writes == 0
    unfenced.write_unfenced(client, entry(0, 3), replace(HOW, accept=True))
    assert client.writes == 1


def test_what_is_there_of_the_rest_stops_no_batch() -> None:
    """Of a batch that was broken off, and is finished by two that are shorter."""
    before = begin(entry(0, 3), None, logs(10), ORIGIN)
    client = Steps(before, *(row(offset, 10 + offset) for offset in range(3)))
    client.rows = frozenset({'["flights",0,0]'})
    unfenced.write_unfenced(client, entry(0, 1), HOW)
    assert client.writes == 1


def test_rows_that_others_hide_the_loss_of() -> None:
    """As many records of others, or more, as there were lost: the rows are counted by identity."""
    before = finish(begin(entry(0, 5), None, logs(10), ORIGIN), 5, 5)
    assert BatchRecord.decode(json.loads(before.encode())) == before
    rows = [row(offset, 10 + offset) for offset in (0, 1, 4)]
    others = [TailRecord(OUT, at, None) for at in (12, 13, 15)]
    found = check(Client(*rows, *others), before, logs(16))
    assert kinds(found) == {Unexpected.FOREIGN: 3, Unexpected.LOST: 2}
    aged = check(Client(*rows, *others), before, logs(16, start=11))
    assert kinds(aged) == {Unexpected.FOREIGN: 3}
    uncounted = check(Client(*rows, *others), replace(before, rows=None), logs(16))
    assert kinds(uncounted) == {Unexpected.FOREIGN: 3}


def test_heads_of_all_partitions_move_together() -> None:
    """With the one record that says that the batch is applied."""
    both = entry_of({}, {TP: OffsetRange(0, 2), OTHER: OffsetRange(0, 3)})
    record = begin(both, None, logs(0), ORIGIN)
    assert record.heads() == {}
    assert finish(record, 5).heads() == {tp: both.head(tp) for tp in both.moves}
