"""The input of a gap proof: claims of the ledger, contents of Kafka, rows of the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Protocol

from eo_listener.audit.intervals import Intervals, common, of_offsets, union, without
from eo_listener.errors import FormatError
from eo_listener.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRange:
    """A ledger's claim about one partition: all of `range` was applied.

    `topic_id` is the topic's id when the range was applied, or None if unknown; `gaps` are offsets
    in `range` that were lost and accepted as lost. Below `known_from` it is unknown whether
    everything was applied: the ledger no longer records where the query began and which gaps were
    accepted. `older` are the ranges applied from older topics of the same name, by their ids: their
    rows look like those of this topic. `beside` are the ranges that other queries have applied to
    the same table, one range for each query. If an offset is in several ranges, its row does not
    show which query wrote it.
    """

    range: OffsetRange
    topic_id: str | None = None
    gaps: tuple[OffsetRange, ...] = ()
    known_from: int = 0
    older: Mapping[str, OffsetRange] = field(default_factory=lambda: MappingProxyType({}))
    beside: tuple[OffsetRange, ...] = ()

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The applied ranges of this topic, one for each query."""
        return (self.range, *self.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts about one partition's log in Kafka.

    `start` is the first offset that the log still has, `stable` is the start of the first open
    transaction (`end` if there is none), and `end` is the next offset to be written.
    `transactional` is True if any producer of the topic is transactional. `compacted` and
    `transactional` are None if unknown.
    """

    start: int
    stable: int
    end: int
    topic_id: str | None = None
    compacted: bool | None = None
    transactional: bool | None = None


class LogReader(Protocol):
    """Reads Kafka's logs; changes nothing. Raises KafkaError if they cannot be read."""

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        """Return the facts about the partitions' logs, without partitions that do not exist."""
        ...

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        """Return the offsets of the records in `ranges`, and possibly of some other records.

        With `committed`, the method leaves out records of aborted and open transactions.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """The offsets of one partition at which its rows differ from the ledger's claims.

    `absent` are claimed offsets without a row, and `unclaimed` are offsets with a row but no claim.
    `repeated` are offsets with too many rows: an offset should have one row for each query that has
    applied it, and one for each older topic of this name that had it. `ambiguous` are offsets with
    a row that an older topic of the same name also had. `fewer` are offsets with fewer rows than
    there are queries that have applied them.
    """

    rows: int
    absent: Intervals
    repeated: Intervals
    unclaimed: Intervals
    ambiguous: Intervals = ()
    fewer: Intervals = ()


def read_rows(
    claims: Mapping[TopicPartition, AppliedRange], rows: Iterable[tuple[str, int, int]]
) -> dict[TopicPartition, RowFacts]:
    """Compare `rows` (topic, partition, offset), as a store's cursor gives them, with `claims`.

    The rows of a partition must be consecutive, in ascending order of offsets. Memory grows with
    the intervals between gaps (some 300 bytes each; each transaction's marker is a gap), not with
    the rows. The result has every partition of `claims`. Raises FormatError for rows in a different
    order.
    """
    facts: dict[TopicPartition, RowFacts] = {}
    for tp, group in groupby(rows, key=_partition):
        if tp in facts:
            raise _unordered(f"the rows of {tp} are not consecutive")
        facts[tp] = _read(tp, claims.get(tp), group)
    for tp, claim in claims.items():
        if tp not in facts:
            facts[tp] = RowFacts(rows=0, absent=union(claim.ranges), repeated=(), unclaimed=())
    return facts


def _read(
    tp: TopicPartition, claim: AppliedRange | None, rows: Iterable[tuple[str, int, int]]
) -> RowFacts:
    queries = () if claim is None else claim.ranges
    claimed = union(queries)
    older = () if claim is None else tuple(claim.older.values())
    counted = _Counted(tp, queries, older)
    stored = of_offsets(counted.walk(rows))
    ambiguous = common(stored, union(older))
    return RowFacts(
        rows=counted.rows,
        absent=without(claimed, stored),
        repeated=of_offsets(counted.repeated),
        unclaimed=without(without(stored, claimed), union(older)),
        ambiguous=ambiguous,
        fewer=without(tuple(counted.fewer), ambiguous),
    )


class _Counted:
    """Yields each offset of the rows once, and records the offsets with too many or too few rows.

    `queries` are the ranges of this topic that each query has applied, and `older` the ranges of
    older topics of its name. An offset should have a row for each range that contains it.
    """

    def __init__(
        self, tp: TopicPartition, queries: Collection[OffsetRange], older: Collection[OffsetRange]
    ) -> None:
        self.rows = 0
        self.repeated: list[int] = []
        self.fewer: list[OffsetRange] = []
        self._tp = tp
        self._queries = queries
        self._lives = (*queries, *older)

    def walk(self, rows: Iterable[tuple[str, int, int]]) -> Iterator[int]:
        last, more = -1, 0
        for _, _, offset in rows:
            self.rows += 1
            if offset < last:
                raise _unordered(f"the offsets of {self._tp} are not in ascending order")
            if offset > last:
                yield offset
                self._compare(last, 1 + more)
                more = 0
            else:
                more += 1
                if more == max(1, _covering(self._lives, offset)):
                    self.repeated.append(offset)
            last = offset
        self._compare(last, 1 + more)

    def _compare(self, offset: int, rows: int) -> None:
        """Add `offset` to `fewer` if it has fewer rows than queries that have applied it."""
        if len(self._queries) > 1 and rows < _covering(self._queries, offset):
            if self.fewer and self.fewer[-1].until == offset:
                self.fewer[-1] = OffsetRange(self.fewer[-1].start, offset + 1)
            else:
                self.fewer.append(OffsetRange(offset, offset + 1))


def _covering(ranges: Collection[OffsetRange], offset: int) -> int:
    """Return the number of ranges that contain `offset`."""
    return sum(offsets.start <= offset < offsets.until for offsets in ranges)


def _partition(row: tuple[str, int, int]) -> TopicPartition:
    return TopicPartition(row[0], row[1])


def _unordered(problem: str) -> FormatError:
    return FormatError(
        problem,
        cause="the store returned its rows in another order",
        fix="Read them with ORDER BY topic, partition, offset",
    )
