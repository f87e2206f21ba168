"""One walk over a store's rows: which offsets are not there, and which are too often. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from eo_listener.audit.evidence import AppliedRange
from eo_listener.audit.intervals import Intervals, of_offsets, union, without
from eo_listener.model.errors import FormatError
from eo_listener.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """What is wrong with the rows of one partition, beside what the ledger claims.

    `absent` are offsets claimed and without a row, `repeated` those with several, `unclaimed`
    those with a row and no claim.
    """

    rows: int
    absent: Intervals
    repeated: Intervals
    unclaimed: Intervals


def read_rows(
    claims: Mapping[TopicPartition, AppliedRange], rows: Iterable[tuple[str, int, int]]
) -> dict[TopicPartition, RowFacts]:
    """Walk over `rows` (topic, partition, offset), as a store's cursor gives them.

    Each partition's must lie together, by rising offset. Memory does not grow with the rows, but
    with the intervals between gaps: some 300 bytes each; each transaction's marker is a gap. Every
    partition of `claims` is in the answer. Raises FormatError for rows in another order.
    """
    found: dict[TopicPartition, RowFacts] = {}
    for tp, group in groupby(rows, key=_partition):
        if tp in found:
            raise _unordered(f"the rows of {tp} are not all together")
        found[tp] = _read(tp, claims.get(tp), group)
    for tp, claim in claims.items():
        if tp not in found:
            found[tp] = RowFacts(rows=0, absent=union([claim.range]), repeated=(), unclaimed=())
    return found


def _read(
    tp: TopicPartition, claim: AppliedRange | None, rows: Iterable[tuple[str, int, int]]
) -> RowFacts:
    counted = _Counted(tp)
    there = of_offsets(counted.walk(rows))
    claimed = () if claim is None else union([claim.range])
    return RowFacts(
        rows=counted.rows,
        absent=without(claimed, there),
        repeated=of_offsets(counted.repeated),
        unclaimed=without(there, claimed),
    )


class _Counted:
    """Offsets once each, with repeated ones kept apart."""

    def __init__(self, tp: TopicPartition) -> None:
        self.rows = 0
        self.repeated: list[int] = []
        self._tp = tp

    def walk(self, rows: Iterable[tuple[str, int, int]]) -> Iterator[int]:
        last = -1
        for _, _, offset in rows:
            self.rows += 1
            if offset < last:
                raise _unordered(f"the offsets of {self._tp} are not in ascending order")
            if offset > last:
                yield offset
            elif not self.repeated or self.repeated[-1] != offset:
                self.repeated.append(offset)
            last = offset


def _partition(row: tuple[str, int, int]) -> TopicPartition:
    return TopicPartition(row[0], row[1])


def _unordered(problem: str) -> FormatError:
    return FormatError(
        problem,
        cause="the store gave its rows in another order",
        fix="Read them with ORDER BY topic, partition, offset",
    )
