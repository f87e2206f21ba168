"""Gaps explained or named, from facts alone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.audit import (
    AppliedRange,
    AuditFindingKind,
    Gravity,
    LogFacts,
    prove,
    read_rows,
)
from eo_listener.audit.intervals import Intervals, of_offsets
from eo_listener.audit.proof import still_unclaimed
from eo_listener.errors import FormatError
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition

Kind = AuditFindingKind
TP = TopicPartition("t", 0)
CLAIM = AppliedRange(range=OffsetRange(0, 10), topic_id="one")
LOG = LogFacts(start=0, stable=10, end=10, topic_id="one", compacted=False)
ALL = frozenset(range(10))


class Log:
    """A `LogReader` of one partition; keeps of what it was asked."""

    def __init__(
        self, facts: LogFacts | None, shown: Iterable[int] = ALL, committed: Any = None
    ) -> None:
        self._facts = facts
        self.partitions: list[TopicPartition] = []
        self._shown = of_offsets(sorted(shown))
        self._committed = self._shown if committed is None else of_offsets(sorted(committed))
        self.asked: list[Intervals] = []

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        self.partitions += partitions
        return dict.fromkeys(partitions, self._facts) if self._facts is not None else {}

    def visible(
        self, partition: TopicPartition, intervals: Intervals, *, committed: bool
    ) -> Intervals:
        self.asked.append(intervals)
        return self._committed if committed else self._shown


def found(
    offsets: Iterable[int], log: Log, claim: AppliedRange = CLAIM, *, read_committed: bool = True
) -> list[tuple[AuditFindingKind, OffsetRange]]:
    rows = [(TP.topic, TP.partition, offset) for offset in offsets]
    findings = prove({TP: claim}, rows, log, read_committed=read_committed)
    assert all(finding.partition == TP for finding in findings)
    return [(finding.kind, finding.range) for finding in findings]


def test_an_older_topic_of_the_name() -> None:
    """Its rows look like those of this one: neither doubled nor unclaimed, and not proved."""
    claim = replace(CLAIM, older={"zero": OffsetRange(4, 20)})
    both = sorted([*range(10), *range(4, 20)])
    either = (Kind.EITHER_TOPIC, OffsetRange(4, 20))
    assert found(both, Log(LOG), claim) == [either]
    thrice = sorted([*both, 2, 5, 15])
    assert found(thrice, Log(LOG), claim) == [
        (Kind.DUPLICATE, OffsetRange(2, 3)),
        (Kind.DUPLICATE, OffsetRange(5, 6)),
        (Kind.DUPLICATE, OffsetRange(15, 16)),
        either,
    ]
    lost = [offset for offset in both if offset != 6] + [30]
    assert found(lost, Log(LOG), claim) == [
        (Kind.UNCLAIMED, OffsetRange(30, 31)),
        (Kind.EITHER_TOPIC, OffsetRange(4, 6)),
        (Kind.EITHER_TOPIC, OffsetRange(7, 20)),
        (Kind.MISSING, OffsetRange(6, 7)),
    ]


def test_two_queries_that_write_into_one_table() -> None:
    """A row of each where both have applied; between them nothing is claimed."""
    log = LogFacts(start=0, stable=30, end=30, topic_id="one", compacted=False)
    every = Log(log, range(30))
    claim = replace(CLAIM, range=OffsetRange(20, 30), beside=(OffsetRange(0, 10),))
    assert found([*range(10), *range(20, 30)], every, claim) == []
    assert found([*range(9), *range(21, 30)], every, claim) == [
        (Kind.MISSING, OffsetRange(20, 21)),
        (Kind.TAIL, OffsetRange(9, 10)),
    ]
    both = replace(CLAIM, range=OffsetRange(0, 30), beside=(OffsetRange(0, 10),))
    rows = sorted([*range(30), *range(10)])
    assert found(rows, every, both) == []
    assert found(range(30), every, both) == [(Kind.EITHER_QUERY, OffsetRange(0, 10))]
    assert found([*rows[1:], 29], every, both) == [
        (Kind.DUPLICATE, OffsetRange(29, 30)),
        (Kind.EITHER_QUERY, OffsetRange(0, 1)),
    ]


def of(shown: Iterable[int] = ALL, **facts: Any) -> Log:
    return Log(replace(LOG, **facts), shown)


@pytest.mark.parametrize(
    ("rows", "log", "expected"),
    [
        (ALL - {4, 9}, Log(LOG, ALL - {4, 9}), [(Kind.MARKER, 4, 5), (Kind.MARKER, 9, 10)]),
        (ALL - {4, 5}, Log(LOG, ALL, ALL - {4, 5}), [(Kind.ABORTED, 4, 6)]),
        (ALL - {0}, Log(LOG, ALL, ALL - {0}), [(Kind.ABORTED, 0, 1)]),
        (ALL - {8, 9}, Log(replace(LOG, stable=8), ALL, ALL - {8, 9}), [(Kind.OPEN, 8, 10)]),
        (ALL - {4}, of(ALL - {4}, compacted=True), [(Kind.MARKER_OR_COMPACTED, 4, 5)]),
        (ALL - {4}, of(ALL - {4}, compacted=None), [(Kind.MARKER_OR_COMPACTED, 4, 5)]),
        (ALL - {4}, of(ALL - {4}, compacted=True, transactional=False), [(Kind.COMPACTED, 4, 5)]),
        (ALL - {4}, of(ALL - {4}, transactional=False), [(Kind.UNEXPLAINED, 4, 5)]),
        (ALL - {0, 1}, of(start=2), [(Kind.RETENTION, 0, 2)]),
        (ALL - {4}, of(), [(Kind.MISSING, 4, 5)]),
        (ALL - {8, 9}, of(), [(Kind.TAIL, 8, 10)]),
        (ALL - {7, 8, 9}, Log(LOG, ALL - {9}), [(Kind.TAIL, 7, 9), (Kind.MARKER, 9, 10)]),
        (range(8), of(end=8, stable=8), [(Kind.MOVED_BACK, 8, 10)]),
        (range(10), of(end=8, stable=8), [(Kind.MOVED_BACK, 8, 10)]),
        (range(10), of(topic_id="two"), [(Kind.RECREATED, 0, 10)]),
        (range(10), Log(None), []),
        (range(9), Log(None), [(Kind.GONE, 9, 10)]),
        ([0, 1, 1, 1, 2, 2, *range(3, 12)], of(end=12, stable=12),
         [(Kind.DUPLICATE, 1, 3), (Kind.UNCLAIMED, 10, 12)]),
        ([], of(), [(Kind.TAIL, 0, 10)]),
    ],
)  # fmt: skip  # one case a line
def test_each_kind(
    rows: Iterable[int], log: Log, expected: list[tuple[AuditFindingKind, int, int]]
) -> None:
    """Each kind of difference between a table and its log has a finding of that kind."""
    assert found(sorted(rows), log) == [
        (kind, OffsetRange(start, until)) for kind, start, until in expected
    ]


def test_an_unknown_topic_id_is_no_other_topic() -> None:
    """A claim without an id, or a log without one, is judged by its offsets."""
    unknown = replace(CLAIM, topic_id=None)
    assert found(range(10), Log(LOG), unknown) == []
    assert found(range(9), Log(LOG), unknown) == [(Kind.TAIL, OffsetRange(9, 10))]
    assert found(range(10), Log(replace(LOG, topic_id=None))) == []


def test_an_accepted_gap_is_explained() -> None:
    """Also at the beginning and the end of what the ledger has; what is lost beside it is not."""
    gaps = (OffsetRange(0, 2), OffsetRange(3, 4), OffsetRange(8, 10))
    claim = replace(CLAIM, gaps=gaps)
    accepted = [(Kind.ACCEPTED, gap) for gap in gaps]
    assert found([2, 4, 5, 6, 7], Log(LOG), claim) == accepted
    assert found([2, 4, 5, 7], Log(LOG), claim) == [*accepted, (Kind.MISSING, OffsetRange(6, 7))]
    assert found(range(10), Log(LOG), claim) == []  # what is there in spite of it is no fault


@pytest.mark.parametrize(
    ("rows", "log", "read_committed", "kinds", "asked"),
    [
        (ALL, Log(LOG), True, [], 0),  # every offset has its row
        (range(9), of(topic_id="two"), True, [Kind.RECREATED], 0),  # not those of the rows
        (ALL - {4}, Log(LOG), True, [Kind.MISSING], 2),
        # A query that reads uncommitted must have the records of aborted transactions too.
        (ALL - {4}, Log(LOG, ALL, ALL - {4}), False, [Kind.MISSING], 1),
    ],
)
def test_what_is_read_of_kafka(
    rows: Iterable[int], log: Log, read_committed: bool, kinds: list[Kind], asked: int
) -> None:
    """Nothing that need not be; committed records only where the query reads no others."""
    assert [kind for kind, _ in found(sorted(rows), log, read_committed=read_committed)] == kinds
    assert len(log.asked) == asked


def test_a_loss_that_was_compacted_since_is_not_explained() -> None:
    """No consumer can tell it from a record that was compacted first, so nothing is claimed."""
    claim, rows = {TP: CLAIM}, [("t", 0, offset) for offset in range(3)]
    for transactional in (False, None):
        facts = replace(LOG, compacted=True, transactional=transactional)
        (finding,) = prove(claim, rows, Log(facts, range(3)))
        assert (finding.range, finding.gravity) == (OffsetRange(3, 10), Gravity.UNPROVABLE)


def test_memory_grows_with_the_gaps_alone() -> None:
    """A further row takes no memory; a further gap takes some hundred bytes."""

    def peak(step: int, rows: int) -> int:
        # The least of some: other threads of this process allocate too.
        return min(peak_once(step, rows) for _ in range(3))

    def peak_once(step: int, rows: int) -> int:
        tracemalloc.start()
        claim = {TP: AppliedRange(range=OffsetRange(0, step * rows))}
        read_rows(claim, (("t", 0, step * number) for number in range(rows)))
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return taken

    assert peak(1, 20_000) < 20_000
    assert peak(2, 20_000) < 350 * 20_000


def test_what_the_ledger_no_longer_records_is_not_called_lost() -> None:
    """Nor applied: nobody can tell. What is there twice is there twice all the same."""
    claim = replace(CLAIM, known_from=5)
    rows = [*sorted(ALL - {2, 3, 6}), 7]
    assert found(sorted([*rows, 1]), Log(LOG), claim) == [
        (Kind.DUPLICATE, OffsetRange(1, 2)),
        (Kind.DUPLICATE, OffsetRange(7, 8)),
        (Kind.UNRECORDED, OffsetRange(2, 4)),
        (Kind.MISSING, OffsetRange(6, 7)),
    ]
    assert found([], Log(LOG), claim) == [
        (Kind.UNRECORDED, OffsetRange(0, 5)),
        (Kind.TAIL, OffsetRange(5, 10)),
    ]


def test_partitions_without_a_claim_or_without_rows() -> None:
    """A partition that only the store or only the ledger knows is judged too."""
    other = TopicPartition("u", 3)
    findings = prove({TP: CLAIM}, [("u", 3, 5)], Log(LOG))
    assert [(f.kind, f.partition, f.range) for f in findings] == [
        (Kind.TAIL, TP, OffsetRange(0, 10)),
        (Kind.UNCLAIMED, other, OffsetRange(5, 6)),
    ]


@pytest.mark.parametrize(
    "rows", [[("t", 0, 2), ("t", 0, 1)], [("t", 0, 1), ("t", 1, 1), ("t", 0, 2)]]
)
def test_rows_out_of_order(rows: list[tuple[str, int, int]]) -> None:
    """Rows that are not ordered by offset are refused with the ORDER BY that orders them."""
    with pytest.raises(FormatError, match="ORDER BY"):
        read_rows({}, rows)


def test_gravity() -> None:
    """What Kafka explains is fine, what it may have deleted is unprovable, the rest is wrong."""
    explained = {Kind.MARKER, Kind.ABORTED, Kind.ACCEPTED}
    wrong = {Kind.MISSING, Kind.OPEN, Kind.TAIL, Kind.UNEXPLAINED, Kind.DUPLICATE}
    wrong |= {Kind.UNCLAIMED, Kind.RECREATED, Kind.MOVED_BACK}
    for kind in Kind:
        unprovable = kind not in explained | wrong
        assert (kind.gravity is Gravity.EXPLAINED) == (kind in explained)
        assert (kind.gravity is Gravity.UNPROVABLE) == unprovable


def test_batches_of_other_sources_are_not_proved() -> None:
    """Kafka is not asked for them, and one finding says that nothing was compared."""
    claims = {TP: CLAIM, BATCHES: AppliedRange(range=OffsetRange(0, 7), topic_id="plan")}
    log = Log(LOG)
    (finding,) = prove(claims, [(*TP, offset) for offset in range(10)], log)
    assert log.partitions == [TP]
    assert (finding.kind, finding.partition) == (Kind.COUNTED, BATCHES)
    assert (finding.range, finding.gravity) == (OffsetRange(0, 7), Gravity.UNPROVABLE)


def test_rows_of_a_batch_that_was_applied_meanwhile_are_claimed_later() -> None:
    """The ledger is read before the rows, so a query at work has more rows than that says."""
    rows = [(TP.topic, TP.partition, offset) for offset in (*range(12), 14)]
    findings = prove({TP: CLAIM}, rows, Log(LOG))
    assert {one.kind for one in findings} == {Kind.UNCLAIMED}
    later = {TP: replace(CLAIM, range=OffsetRange(0, 12))}
    (left,) = still_unclaimed(findings, later)
    assert (left.kind, left.range) == (Kind.UNCLAIMED, OffsetRange(14, 15))
