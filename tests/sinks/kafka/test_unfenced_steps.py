"""What is decided about a batch without transactions; `tests/model_checking/unfenced` has more."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.errors import TargetRecordsError, TopicRecreatedError, UnfinishedBatchError
from eo_listener.kafka.range_reader import TargetLog
from eo_listener.model.ledger import Entry, Unexpected
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import unfenced
from eo_listener.sinks.kafka.ledger import BatchRecord, TargetEnds
from eo_listener.sinks.kafka.row_identity import RowIdentity, writer_of
from eo_listener.sinks.kafka.unfenced import (
    Findings,
    StoredState,
    TailRecord,
    UnfencedFacts,
    begin,
    finish,
)
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.testing.made_up_entries import QUERY, entry_of

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
OUT = TopicPartition("out", 0)
HOW = UnfencedFacts(
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
    """All that a batch asks for; its ledger holds `batch`, its target `records`."""

    def __init__(
        self,
        batch: BatchRecord | None,
        *records: TailRecord,
        topic_id: str | None = "id",
        rows: Sequence[str] = (),
    ) -> None:
        self.batch, self.records, self.rows = batch, records, rows  # `rows` are identities
        self.asked: list[Mapping[TopicPartition, OffsetRange]] = []
        self.begun: list[BatchRecord] = []
        self.there: Mapping[str, Any] = {}
        self.writes = 0
        end = max([10, *(one.offset + 1 for one in records)])
        if batch is not None and batch.size is not None:
            end += batch.size
        self.logs = {"out": TargetLog(id=topic_id, ranges={0: OffsetRange(0, end)})}

    def read_ledger(self, _: str) -> StoredState:
        return StoredState({}, self.batch)

    def read_targets(self) -> Mapping[str, TargetLog]:
        return self.logs

    def read_records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[TailRecord]:
        self.asked.append(ranges)
        return [one for one in self.records if one.offset in range(*ranges[one.partition])]

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


def kinds_of(found: Findings) -> dict[Unexpected, int]:
    return {one.kind: one.count for one in found.records()}


def finished(until: int = 5, size: int = 5, end: int = 10) -> BatchRecord:
    return finish(begin(entry(0, until), None, logs(end), ORIGIN), size)


@given(st.integers(1, 30), st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_the_ends_stay_as_long_as_anything_is_left(until: int, sizes: list[int]) -> None:
    """Of a batch that was broken off: whatever bounds its repetitions have, and no longer."""
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
            assert record.remaining == {TP: OffsetRange(start, until)}
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


ROWS = [row(offset, 10 + offset) for offset in range(5)]
FOREIGN = TailRecord(OUT, 15, None)
COUNTED = finish(begin(entry(0, 5), None, logs(10), ORIGIN), 5, 5)


@pytest.mark.parametrize(
    ("records", "now", "before", "kinds"),
    [
        # As many as were written: not read, there is room for nothing else, aged or not.
        (None, logs(15), finished(), {}),
        (None, logs(15, start=12), finished(), {}),
        (None, logs(15, start=15), finished(), {}),
        # More: each that is too many is named by what it is.
        (
            [*ROWS, row(2, 15), row(7, 16, batch=9), TailRecord(OUT, 17, None)],
            logs(18),
            finished(),
            {Unexpected.REPEATED: 1, Unexpected.LATE: 1, Unexpected.FOREIGN: 1},
        ),
        ([*ROWS, FOREIGN], logs(16), finished(), {Unexpected.FOREIGN: 1}),
        # Fewer: what was acknowledged is lost.
        (ROWS, logs(13), finished(), {Unexpected.LOST: 2}),
        (ROWS, logs(10), finished(), {Unexpected.LOST: 5}),
        (ROWS, logs(8), finished(), {Unexpected.LOST: 7}),
        # Others hide the loss: rows are counted by identity, unless some may have aged.
        (
            [ROWS[0], ROWS[1], ROWS[4], *(TailRecord(OUT, at, None) for at in (12, 13, 15))],
            logs(16),
            COUNTED,
            {Unexpected.FOREIGN: 3, Unexpected.LOST: 2},
        ),
        (ROWS[2:], logs(16, start=12), COUNTED, {}),
        ([*ROWS[2:], FOREIGN], logs(16), replace(COUNTED, rows=None), {Unexpected.FOREIGN: 1}),
    ],
)
def test_what_is_behind_a_finished_batch(
    records: Sequence[TailRecord] | None,
    now: dict[str, TargetLog],
    before: BatchRecord,
    kinds: dict[Unexpected, int],
) -> None:
    """It is compared by number, and read only if that is not the one of its rows."""
    client = Client(None, *(records or ()))
    found = unfenced.check_finished(client, before, now, HOW)
    assert kinds_of(found) == kinds
    assert records is not None or client.asked == []
    assert BatchRecord.decode(json.loads(before.encode())) == before


def test_what_stops_a_batch() -> None:
    """All but records of others, unless it is accepted; the error has where it lies."""
    found = Findings()
    found.add(Unexpected.FOREIGN, OUT, OffsetRange(17, 18))
    unfenced.refuse_unexpected(found, entry(5, 6), HOW, "behind batch 0")
    for kind, at in ((Unexpected.REPEATED, 15), (Unexpected.LATE, 16)):
        found.add(kind, OUT, OffsetRange(at, at + 1))
    with pytest.raises(TargetRecordsError) as caught:
        unfenced.refuse_unexpected(found, entry(5, 6), HOW, "behind batch 0")
    assert caught.value.ranges == {OUT: OffsetRange(15, 17)}
    unfenced.refuse_unexpected(found, entry(5, 6), replace(HOW, accept=True), "behind batch 0")


BEGUN = begin(entry(0, 5), None, logs(10), ORIGIN)
OWN: dict[str, Any] = {"identity": ("value",)}
BY_VALUE = replace(BEGUN, **OWN)
BOTH = begin(entry_of({}, {TP: OffsetRange(0, 5), OTHER: OffsetRange(0, 5)}), None, logs(0), ORIGIN)
RECREATED = entry_of({}, {TP: OffsetRange(0, 8)}, topic_id="a newer one")


@pytest.mark.parametrize(
    ("before", "now", "there", "how", "refused"),
    [
        (BEGUN, entry(0, 3), logs(10), {}, False),
        (BEGUN, entry(0, 9), logs(10), {}, False),
        (BEGUN, entry(0, 5), logs(10), OWN, True),  # rows are known by other columns
        (BEGUN, entry(0, 5), {}, {}, True),  # the sink has no longer such a topic
        (BY_VALUE, entry(0, 5), logs(10), OWN, False),
        (BY_VALUE, entry(0, 3), logs(10), OWN, True),  # rows of one value may differ
        (BEGUN, RECREATED, logs(10), {}, True),  # offsets of the source are other records
        (BEGUN, entry_of({}, {TP: OffsetRange(0, 8)}, topic_id=None), logs(10), {}, False),
        (BOTH, entry(0, 5), logs(10), {"reads": frozenset({TP})}, True),  # it would never be
    ],
)
def test_which_batch_finishes_another(
    before: BatchRecord, now: Entry, there: dict[str, TargetLog], how: dict[str, Any], refused: bool
) -> None:
    """What cannot is refused, with what is left; if that is accepted, it is given up."""
    asked = replace(HOW, **how)
    if not refused:
        assert unfenced.is_finished_by(before, now, there, asked)
        return
    with pytest.raises(UnfinishedBatchError) as caught:
        unfenced.is_finished_by(before, now, there, asked)
    assert caught.value.ranges == before.remaining
    assert not unfenced.is_finished_by(before, now, there, replace(asked, accept=True))


def test_a_batch_that_is_given_up() -> None:
    """Nothing is begun; if it is accepted, the next one is written whole, behind what is there."""
    client = Client(BY_VALUE, *ROWS[:3])
    with pytest.raises(UnfinishedBatchError):
        unfenced.write_unfenced(client, entry(0, 3), replace(HOW, **OWN))
    assert client.begun == []
    unfenced.write_unfenced(client, entry(0, 3), replace(HOW, **OWN, accept=True))
    (begun,) = client.begun
    assert (begun.number, begun.remaining) == (2, {TP: OffsetRange(0, 3)})
    assert begun.since == {"out": TargetEnds("id", {0: 13})}
    assert client.there == {}


def test_a_target_that_was_created_again_between_batches() -> None:
    """Its rows are gone; before the first batch is over it had none that count."""
    client = Client(finished(), topic_id="a newer one")
    with pytest.raises(TopicRecreatedError, match="topic out"):
        unfenced.write_unfenced(client, entry(5, 9, 1), HOW)
    unfenced.write_unfenced(client, entry(5, 9, 1), replace(HOW, accept=True))
    unfenced.write_unfenced(Client(finished(), topic_id=None), entry(5, 9, 1), HOW)
    unfenced.write_unfenced(Client(BEGUN, topic_id="a newer one"), entry(0, 5), HOW)


def test_rows_that_an_earlier_part_of_the_batch_has() -> None:
    """A batch that was broken off may be finished by two: the second does not have the first's."""
    done = {TP: entry(0, 3).head(TP)}
    there = {f'["flights",0,{offset}]': (OUT, 10 + offset) for offset in (1, 2, 4)}
    (found,) = unfenced.not_of_batch(there, done, HOW).records()
    assert (found.kind, found.count) == (Unexpected.UNKNOWN, 1)
    assert found.ranges == {OUT: OffsetRange(14, 15)}
    own = unfenced.not_of_batch(there, done, replace(HOW, **OWN))
    assert kinds_of(own) == {Unexpected.UNKNOWN: 3}


def test_identities_that_change_stop_a_batch_before_it_is_sent() -> None:
    """Else each start would write all of its rows once more; not so what is there of the rest."""
    begun = begin(entry(0, 3), None, logs(10), ORIGIN)
    client = Client(begun, *ROWS[:3], rows=['["flights",0,0]', '["flights",0,1]'])
    for _ in range(2):
        with pytest.raises(TargetRecordsError, match="1 rows") as caught:
            unfenced.write_unfenced(client, entry(0, 3), HOW)
        assert caught.value.ranges == {OUT: OffsetRange(12, 13)}
    assert client.writes == 0
    unfenced.write_unfenced(client, entry(0, 3), replace(HOW, accept=True))
    unfenced.write_unfenced(client, entry(0, 2), HOW)  # finishes a part of what was broken off
    assert client.writes == 2
