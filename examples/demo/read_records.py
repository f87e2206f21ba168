"""What one reader is shown of the target topic while it grows, and what is wrong with it. Pure.

A reader under read_committed sees a transaction partition by partition, since its markers are
written so. But the next transaction begins only when they are all there. So:

- in a partition the records of a batch follow each other without a gap: a marker in between would
  mean a second transaction;
- whoever has seen a record of a batch, and then reads on to the ends of all partitions, has seen
  every record of the batches before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from examples.demo.stored_rows import ReaderReport, Rows

TWICE: Final = "twice"
DISORDERED: Final = "out of order"
TORN: Final = "torn"


class SourceRecord(NamedTuple):
    """Where a row is from: a partition of the source and its offset there; and its batch."""

    partition: int
    offset: int
    batch: int


class ReadRecords:
    """Takes records in the order in which the reader gets them from each partition."""

    def __init__(self) -> None:
        self._seen: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._below: defaultdict[int, int] = defaultdict(int)  # all offsets below were seen
        self._ends: defaultdict[int, dict[int, int]] = defaultdict(dict)  # of each open batch
        self._last: dict[int, tuple[int, int]] = {}  # of a target partition: place and batch
        self._newest: dict[tuple[int, int], int] = {}  # of target and source partition
        self._batches: set[int] = set()
        self._faults: Counter[str] = Counter()
        self._first: str | None = None
        self._rounds = 0
        self._before = -1  # the newest batch that was seen when the round before began

    def take(self, target: int, place: int, record: SourceRecord) -> None:
        """Take the record at offset `place` of partition `target`."""
        source, offset, batch = record
        seen = self._seen[source]
        seen.extend(bytes(max(0, offset + 1 - len(seen))))
        if seen[offset]:
            self._fault(TWICE, f"{record} is at {target}:{place} once more")
        seen[offset] = min(255, seen[offset] + 1)
        if offset <= self._newest.get((target, source), -1):
            self._fault(DISORDERED, f"{record} is at {target}:{place}, after a later one")
        self._newest[target, source] = offset
        self._compare(target, place, record)
        self._last[target] = place, batch
        self._batches.add(batch)
        ends = self._ends[batch]
        ends[source] = max(ends.get(source, 0), offset + 1)

    def round_ended(self) -> None:
        """Note that all was read that was there when the round began."""
        self._rounds += 1
        for batch in sorted(one for one in self._ends if one < self._before):
            self._close(batch)
        self._before = max(self._batches, default=-1)

    def report(self) -> ReaderReport:
        """What was seen, and what was wrong, so far."""
        return ReaderReport(
            rounds=self._rounds,
            batches=len(self._batches),
            faults=dict(self._faults),
            first=self._first,
        )

    def count(self, ends: Mapping[int, int]) -> tuple[dict[int, Rows], int]:
        """Count the rows of each source partition, up to where its log ends; and all there are.

        A record that is there more than 255 times counts as 255.
        """
        counted = {}
        for partition, end in ends.items():
            below = self._seen[partition][:end]
            counted[partition] = Rows(found=sum(below), records=len(below) - below.count(0))
        return counted, sum(sum(seen) for seen in self._seen.values())

    def _compare(self, target: int, place: int, record: SourceRecord) -> None:
        last = self._last.get(target)
        if last is None:
            return
        adjoins = place == last[0] + 1
        if record.batch < last[1]:
            self._fault(TORN, f"{record} is at {target}:{place}, after one of batch {last[1]}")
        elif record.batch == last[1] and not adjoins:
            self._fault(TORN, f"{record} is at {target}:{place}, in a second transaction")
        elif record.batch > last[1] and adjoins:
            self._fault(TORN, f"{record} is at {target}:{place}, in the transaction of another")

    def _close(self, batch: int) -> None:
        """Nothing of it, nor of what is before it in the source, may be missing any more."""
        for source, end in self._ends.pop(batch).items():
            seen = self._seen[source]
            missing = seen.find(0, self._below[source], end)
            if missing >= 0:
                self._fault(TORN, f"batch {batch} was seen without {source}:{missing}")
            else:
                self._below[source] = max(self._below[source], end)

    def _fault(self, kind: str, what: str) -> None:
        self._faults[kind] += 1
        self._first = self._first or f"{kind}: {what}"
