"""One walk over a store's rows: which offsets are not there, and which are too often. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from eo_listener.audit.evidence import AppliedRange
from eo_listener.audit.intervals import Intervals, common, of_offsets, union, without
from eo_listener.model.errors import FormatError
from eo_listener.model.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """What is wrong with the rows of one partition, beside what the ledger claims.

    `absent` are offsets claimed and without a row, `repeated` those with more rows than topics of
    this name had them, `unclaimed` those with a row and no claim. `ambiguous` have a row, and an
    older topic of the name had them.
    """

    rows: int
    absent: Intervals
    repeated: Intervals
    unclaimed: Intervals
    ambiguous: Intervals = ()


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
    claimed = () if claim is None else union([claim.range])
    older = () if claim is None else tuple(claim.older.values())
    counted = _Counted(tp, (*claimed, *older))
    there = of_offsets(counted.walk(rows))
    return RowFacts(
        rows=counted.rows,
        absent=without(claimed, there),
        repeated=of_offsets(counted.repeated),
        unclaimed=without(without(there, claimed), union(older)),
        ambiguous=common(there, union(older)),
    )


class _Counted:
    """Offsets once each, with repeated ones kept apart.

    Each of the `lives`, the ranges of topics of one name, has a row of an offset.
    """

    def __init__(self, tp: TopicPartition, lives: Collection[OffsetRange]) -> None:
        self.rows = 0
        self.repeated: list[int] = []
        self._tp = tp
        self._lives = lives

    def walk(self, rows: Iterable[tuple[str, int, int]]) -> Iterator[int]:
        last, more = -1, 0
        for _, _, offset in rows:
            self.rows += 1
            if offset < last:
                raise _unordered(f"the offsets of {self._tp} are not in ascending order")
            if offset > last:
                yield offset
                more = 0
            else:
                more += 1
                if more == max(1, self._topics(offset)):
                    self.repeated.append(offset)
            last = offset

    def _topics(self, offset: int) -> int:
        """How many topics of the name had the offset."""
        return sum(life.start <= offset < life.until for life in self._lives)


def _partition(row: tuple[str, int, int]) -> TopicPartition:
    return TopicPartition(row[0], row[1])


def _unordered(problem: str) -> FormatError:
    return FormatError(
        problem,
        cause="the store gave its rows in another order",
        fix="Read them with ORDER BY topic, partition, offset",
    )
