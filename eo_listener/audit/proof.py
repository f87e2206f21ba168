"""The gap proof: explains each gap of a store by Kafka's log, or reports it as a loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from eo_listener.audit.evidence import AppliedRange, LogFacts, LogReader, RowFacts, read_rows
from eo_listener.audit.intervals import Intervals, common, union, without
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition


class Gravity(Enum):
    """The answer that a finding gives to the question: is each record in the store exactly once?"""

    EXPLAINED = "as it should be"
    UNPROVABLE = "can no longer be proved"
    WRONG = "wrong"


class AuditFindingKind(Enum):
    """The reason why offsets have no row, or rows exist that should not.

    Kafka never gives a consumer its control records. So on a compacted topic it is unknown whether
    an absent offset is a marker or was compacted, unless no producer of the topic is transactional.
    A record that was lost and later compacted looks like a record that was only compacted.
    """

    gravity: Gravity
    """The gravity of a finding of this kind."""

    def __new__(  # noqa: PYI034  # Python 3.10 has no Self
        cls, value: str, gravity: Gravity = Gravity.WRONG
    ) -> AuditFindingKind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.gravity = gravity
        return kind

    MARKER = "transaction marker", Gravity.EXPLAINED
    ABORTED = "record of an aborted transaction", Gravity.EXPLAINED
    OPEN = "record of an open transaction that the ledger has passed"
    COMPACTED = "compacted by Kafka, and not in the store", Gravity.UNPROVABLE
    MARKER_OR_COMPACTED = (
        "transaction marker, or a record that Kafka has compacted and the store does not have",
        Gravity.UNPROVABLE,
    )
    ACCEPTED = "lost, and recorded in the ledger as accepted", Gravity.EXPLAINED
    RETENTION = "deleted by Kafka, and not in the store", Gravity.UNPROVABLE
    GONE = "the partition is no longer in Kafka", Gravity.UNPROVABLE
    MISSING = "in Kafka and not in the store"
    UNRECORDED = (
        "in Kafka and not in the store; the ledger no longer shows whether they were applied",
        Gravity.UNPROVABLE,
    )
    TAIL = "in Kafka and not in the store, up to the ledger's head"
    UNEXPLAINED = "not in Kafka, although nothing deletes single records there"
    DUPLICATE = "in the store more than once"
    COUNTED = (
        "batches of sources other than Kafka, whose records cannot be compared",
        Gravity.UNPROVABLE,
    )
    UNCLAIMED = "in the store and not in the ledger"
    RECREATED = "of an older topic of the same name"
    EITHER_TOPIC = (
        "in the store, of this topic or an older one of its name: their rows look alike",
        Gravity.UNPROVABLE,
    )
    EITHER_QUERY = (
        "in the store, with fewer rows than queries that have applied it: their rows look alike",
        Gravity.UNPROVABLE,
    )
    MOVED_BACK = "beyond the end of Kafka's log, which has moved back"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """A range of one partition's offsets that have the same kind of finding."""

    kind: AuditFindingKind
    partition: TopicPartition
    range: OffsetRange

    @property
    def gravity(self) -> Gravity:
        """The gravity of the finding."""
        return self.kind.gravity

    def __str__(self) -> str:
        return f"{self.partition} {self.range}: {self.kind.value}"


def prove(
    claims: Mapping[TopicPartition, AppliedRange],
    rows: Iterable[tuple[str, int, int]],
    log: LogReader,
    *,
    read_committed: bool = False,
) -> tuple[AuditFinding, ...]:
    """Compare a store's rows with the claims of its ledger and with Kafka's logs.

    `rows` are the topic, partition and offset of each row, in this order, from a store that keeps a
    row for each record. `read_committed` is True if the query reads with that isolation level (its
    source's `kafka.isolation.level`): by default Spark also reads the records of aborted
    transactions. A query that reads committed records never passes an open transaction; if its
    ledger has offsets beyond one, the ledger is wrong.

    From Kafka, the proof reads only the offsets that the store lacks, and those between two gaps
    near each other. Each transaction leaves a marker, which is a gap, so the proof reads the whole
    of a transactional topic, and reads it twice with `read_committed`. Memory grows with the gaps,
    see `read_rows`.

    The proof cannot detect a log that was cut back (by an unclean election) and has since grown
    past the claim: all its offsets exist, but with other records. Nor can it detect a recreated
    topic if the claim has no topic id.

    If an older topic of the same name also had an offset (`AppliedRange.older`), the rows of both
    topics look alike. If such an offset has a row, the proof cannot tell from which topic the row
    is; the offset is doubled only if it has more rows than there were topics with that offset. The
    same holds if several queries have applied an offset (`AppliedRange.beside`): if it has fewer
    rows than there are queries, the proof cannot tell which query's row is missing.

    A claim about BATCHES (sources other than Kafka) is not proved; one finding reports it.

    Raises FormatError for rows out of order, and KafkaError if Kafka cannot be read.
    """
    facts = read_rows(claims, rows)
    logs = log.facts(sorted((facts.keys() | claims.keys()) - {BATCHES}))
    findings: list[AuditFinding] = []
    for tp in sorted(facts):
        row_facts, claim, log_facts = facts[tp], claims.get(tp), logs.get(tp)
        shown: Intervals = ()
        committed: Intervals = ()
        if claim is not None and log_facts is not None and _same_topic(claim, log_facts):
            absent = common(row_facts.absent, union([OffsetRange(log_facts.start, log_facts.end)]))
            if absent:
                shown = log.visible(tp, absent, committed=False)
                if read_committed:
                    committed = log.visible(tp, absent, committed=True)
        findings.extend(
            explain(
                tp,
                claim,
                row_facts,
                log_facts,
                shown=shown,
                committed=committed,
                read_committed=read_committed,
            )
        )
    return tuple(findings)


def still_unclaimed(
    findings: Iterable[AuditFinding], claims: Mapping[TopicPartition, AppliedRange]
) -> Iterator[AuditFinding]:
    """Yield `findings`, but without unclaimed offsets that the later reading `claims` contains.

    A running query may have applied batches since the first reading, and the ledger then claims
    their rows.
    """
    for finding in findings:
        claim = claims.get(finding.partition)
        if finding.kind is not AuditFindingKind.UNCLAIMED or claim is None:
            yield finding
            continue
        for remaining in without((finding.range,), union(claim.ranges)):
            yield replace(finding, range=remaining)


def explain(
    tp: TopicPartition,
    claim: AppliedRange | None,
    rows: RowFacts,
    log: LogFacts | None,
    *,
    shown: Intervals,
    committed: Intervals,
    read_committed: bool,
) -> Iterator[AuditFinding]:
    """Yield a finding for each range of one partition's offsets that is absent, extra or doubtful.

    `log` is None if the partition does not exist. `shown` are the offsets without rows at which
    Kafka gives a consumer a record. `committed` are those of them whose record is in a committed
    transaction or in no transaction. The function uses `committed` only with `read_committed`.
    """

    def findings(kind: AuditFindingKind, intervals: Intervals) -> Iterator[AuditFinding]:
        return (AuditFinding(kind=kind, partition=tp, range=offsets) for offsets in intervals)

    yield from findings(AuditFindingKind.DUPLICATE, rows.repeated)
    yield from findings(AuditFindingKind.UNCLAIMED, rows.unclaimed)
    yield from findings(AuditFindingKind.EITHER_TOPIC, rows.ambiguous)
    yield from findings(AuditFindingKind.EITHER_QUERY, rows.fewer)
    if claim is None:
        return
    if tp == BATCHES:
        yield from findings(AuditFindingKind.COUNTED, union([claim.range]))
        return
    if log is None:
        yield from findings(AuditFindingKind.GONE, rows.absent)
        return
    if not _same_topic(claim, log):
        yield from findings(AuditFindingKind.RECREATED, union(claim.ranges))
        return
    yield from findings(
        AuditFindingKind.MOVED_BACK,
        union(OffsetRange(max(log.end, offsets.start), offsets.until) for offsets in claim.ranges),
    )
    accepted = common(rows.absent, union(claim.gaps))
    yield from findings(AuditFindingKind.ACCEPTED, accepted)
    absent = without(rows.absent, accepted)
    yield from findings(
        AuditFindingKind.RETENTION, common(absent, union([OffsetRange(0, log.start)]))
    )
    absent = common(absent, union([OffsetRange(log.start, log.end)]))
    lost = common(absent, committed if read_committed else shown)
    for kind, intervals in _lost(claim, rows, lost):
        yield from findings(kind, intervals)
    hidden = without(common(absent, shown), lost)
    yield from findings(
        AuditFindingKind.ABORTED, common(hidden, union([OffsetRange(0, log.stable)]))
    )
    yield from findings(
        AuditFindingKind.OPEN, common(hidden, union([OffsetRange(log.stable, log.end)]))
    )
    yield from findings(_kind_of_nothing(log), without(absent, shown))


def _lost(
    claim: AppliedRange, rows: RowFacts, lost: Intervals
) -> Iterator[tuple[AuditFindingKind, Intervals]]:
    """Classify `lost`, the offsets in Kafka that the store lacks: unrecorded, missing, or tail."""
    unrecorded = common(lost, union([OffsetRange(0, claim.known_from)]))
    yield AuditFindingKind.UNRECORDED, unrecorded
    missing = without(lost, unrecorded)
    ends = {offsets.until for offsets in claim.ranges}
    tail = tuple(offsets for offsets in rows.absent if offsets.until in ends)
    yield AuditFindingKind.MISSING, without(missing, tail)
    yield AuditFindingKind.TAIL, common(missing, tail)


def _kind_of_nothing(log: LogFacts) -> AuditFindingKind:
    """Return the kind of an offset at which a consumer gets no record."""
    if log.transactional is False:
        return (
            AuditFindingKind.UNEXPLAINED if log.compacted is False else AuditFindingKind.COMPACTED
        )
    return (
        AuditFindingKind.MARKER if log.compacted is False else AuditFindingKind.MARKER_OR_COMPACTED
    )


def _same_topic(claim: AppliedRange, log: LogFacts) -> bool:
    return claim.topic_id is None or log.topic_id is None or claim.topic_id == log.topic_id
