"""The findings of an audit, and its verdict. Reads and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from types import MappingProxyType
from typing import Final

from eo_listener.audit.intervals import Intervals, size, union
from eo_listener.errors import counted, few
from eo_listener.model.check_finding import Severity
from eo_listener.offsets import OffsetRange, TopicPartition

SHOWN = 1000
"""The maximum number of a finding's ranges in its JSON document."""


class Harm(Enum):
    """What happened, or may have happened, to the records in the ranges of a finding."""

    NONE = "none"
    LOST = "lost"
    DOUBLED = "doubled"
    UNPROVED = "unproved"
    ACCEPTED = "lost and accepted"


_UNCOMPARED: Final = True


class PositionFindingKind(Enum):
    """The kind of a finding; programs rely on these values, so they do not change.

    Each kind has a severity and a harm, which its findings have unless a check decides otherwise.
    `uncompared` is True if something could not be compared, so that a loss cannot be excluded.
    """

    severity: Severity
    harm: Harm
    uncompared: bool

    def __new__(  # noqa: PYI034  # Python 3.10 has no Self
        cls,
        value: str,
        severity: Severity,
        harm: Harm = Harm.NONE,
        uncompared: bool = False,  # the members are tuples
    ) -> PositionFindingKind:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.severity = severity
        kind.harm = harm
        kind.uncompared = uncompared
        return kind

    AGREED = "agreed", Severity.FINE
    TOPIC_GONE = "topic gone", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    TOPIC_RECREATED = "topic recreated", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    BEYOND_END = "beyond the end of the log", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    RETENTION = "deleted before it was read", Severity.PROBLEM, Harm.LOST
    OPEN_TRANSACTION = "open transaction", Severity.NOTE
    HANGING_TRANSACTION = "hanging transaction", Severity.WARNING
    NEW_PARTITIONS = "new partitions", Severity.NOTE
    CHECKPOINT_MISSING = "no checkpoint", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    CHECKPOINT_DAMAGED = "checkpoint damaged", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    BATCH_IN_DOUBT = "batch in doubt", Severity.NOTE
    BATCHES_SKIPPED = "batches skipped", Severity.PROBLEM, Harm.LOST
    NOT_KAFKA = "sources that are not Kafka", Severity.NOTE
    GROUP_EMPTY = "group empty", Severity.WARNING
    GROUP_LACKS = "group lacks partitions", Severity.WARNING
    GROUP_BEHIND = "group behind", Severity.WARNING
    GROUP_AHEAD = "group ahead", Severity.WARNING
    GROUP_WITHHELD = "group withheld", Severity.WARNING
    GROUP_FOREIGN = "group with foreign commits", Severity.WARNING
    NEVER_READ = "never read", Severity.PROBLEM, Harm.LOST
    GROUP_UNSTABLE = "transaction on the group", Severity.NOTE
    GROUP_DRAINED = "group drained", Severity.FINE
    GROUP_NOT_DRAINED = "group not drained", Severity.WARNING
    LEDGER_EMPTY = "ledger empty", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    LEDGER_RENAMED = "ledger under another name", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    LEDGER_LACKS = "ledger lacks partitions", Severity.PROBLEM, Harm.LOST
    LEDGER_BEHIND = "ledger behind", Severity.PROBLEM, Harm.LOST
    LEDGER_TAKEN_BACK = "ledger taken back", Severity.WARNING, Harm.NONE, _UNCOMPARED
    BATCH_REFUSED = "batch refused", Severity.PROBLEM
    LEDGER_FOREIGN = "ledger of another query", Severity.WARNING, Harm.NONE, _UNCOMPARED
    TARGET_RECREATED = "target recreated", Severity.PROBLEM, Harm.NONE, _UNCOMPARED
    SINKS_DIFFER = "sinks differ", Severity.WARNING
    HISTORY_MISSING = "history with missing offsets", Severity.PROBLEM, Harm.LOST
    HISTORY_REPEATED = "history with repeated offsets", Severity.PROBLEM, Harm.DOUBLED
    GAP_ACCEPTED = "gap accepted", Severity.NOTE, Harm.ACCEPTED
    BATCH_BEGUN = "batch begun", Severity.WARNING, Harm.NONE, _UNCOMPARED
    ROWS_MISSING = "rows missing", Severity.PROBLEM, Harm.LOST
    ROWS_DOUBLED = "rows doubled", Severity.PROBLEM, Harm.DOUBLED
    ROWS_WRONG = "rows that should not be there", Severity.PROBLEM
    ROWS_UNPROVABLE = "rows that cannot be proved", Severity.NOTE, Harm.UNPROVED
    ROWS_EXPLAINED = "rows explained", Severity.NOTE
    NOT_READ = "not read", Severity.PROBLEM, Harm.NONE, _UNCOMPARED

    def finding(
        self,
        about: str,
        what: str,
        *,
        cause: str = "",
        fix: str = "",
        ranges: Mapping[TopicPartition, Intervals] = MappingProxyType({}),
        severity: Severity | None = None,
        harm: Harm | None = None,
    ) -> PositionFinding:
        """Return a finding of this kind; the arguments are the fields of PositionFinding."""
        return PositionFinding(
            kind=self,
            severity=self.severity if severity is None else severity,
            about=about,
            what=what,
            cause=cause,
            fix=fix,
            ranges=ranges,
            harm=self.harm if harm is None else harm,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionFinding:
    """One finding of an audit."""

    kind: PositionFindingKind
    severity: Severity
    #: The name of its subject, such as "group flights".
    about: str
    what: str
    cause: str
    #: A command, or the code to write.
    fix: str
    #: The offsets in question, by partition.
    ranges: Mapping[TopicPartition, Intervals]
    #: The fate of the records at these offsets.
    harm: Harm

    @property
    def is_unread(self) -> bool:
        """True if the finding reports that something could not be read."""
        return self.kind is PositionFindingKind.NOT_READ

    @property
    def matters(self) -> bool:
        """True if somebody has to act on the finding."""
        return self.severity in (Severity.WARNING, Severity.PROBLEM)

    def document(self) -> dict[str, object]:
        """Return the finding as a JSON document."""
        return {
            "kind": self.kind.value,
            "severity": self.severity.value,
            **{name: getattr(self, name) for name in ("about", "what", "cause", "fix")},
            "harm": self.harm.value,
            "offsets": sum(map(size, self.ranges.values())),
            "ranges": list(islice(self._rows(), SHOWN)),
        }

    def _rows(self) -> Iterator[list[object]]:
        """Yield the topic, partition, start and until of each range."""
        return (
            [*tp, *offsets]
            for tp, intervals in sorted(self.ranges.items())
            for offsets in intervals
        )


Findings = Iterator[PositionFinding]
Ranges = Mapping[TopicPartition, OffsetRange]


def single(ranges: Ranges) -> dict[TopicPartition, Intervals]:
    """Return `ranges`, one for each partition, in the form of a finding's `ranges`.

    A finding may have several ranges for each partition.
    """
    return {tp: (offsets,) for tp, offsets in ranges.items()}


def listed(ranges: Ranges) -> str:
    """Return the first few of the ranges as text."""
    return few(f"{tp} {offsets}" for tp, offsets in sorted(ranges.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """All findings of an audit; `verdict` sums them up in one line.

    `compared` names the places that were compared: log, checkpoint, group, ledger. `uncounted_rows`
    is True if ledgers were compared, but the rows of their tables were not counted.
    """

    findings: tuple[PositionFinding, ...]
    compared: tuple[str, ...] = ()
    uncounted_rows: bool = False

    @property
    def to_act_on(self) -> tuple[PositionFinding, ...]:
        """The findings that somebody has to act on."""
        return tuple(finding for finding in self.findings if finding.matters)

    @property
    def complete(self) -> bool:
        """True if everything that was requested could be read."""
        return not any(finding.is_unread for finding in self.findings)

    def count(self, harm: Harm) -> int:
        """Return the number of offsets in findings with this harm, counting each offset once."""
        by_partition: dict[TopicPartition, list[OffsetRange]] = {}
        for finding in self.findings:
            if finding.harm is harm:
                for tp, ranges in finding.ranges.items():
                    by_partition.setdefault(tp, []).extend(ranges)
        return sum(size(union(ranges)) for ranges in by_partition.values())

    def document(self) -> dict[str, object]:
        """Return the outcome as a JSON document."""
        return {
            "verdict": self.verdict,
            "complete": self.complete,
            "compared": list(self.compared),
            "lost": self.count(Harm.LOST),
            "doubled": self.count(Harm.DOUBLED),
            "accepted": self.count(Harm.ACCEPTED),
            "unproved": self.count(Harm.UNPROVED),
            "to_act_on": len(self.to_act_on),
            "findings": [finding.document() for finding in self.findings],
        }

    def _nothing(self, unproved: int) -> str:
        """Return the text for an audit that has found no loss and no duplicate."""
        if not {"checkpoint", "ledger"} <= {*self.compared}:
            places = ", ".join(self.compared) or "nothing"
            return f"nothing found lost or doubled (compared: {places})"
        uncertain = unproved or any(
            finding.kind.uncompared
            for finding in self.findings
            if finding.matters or finding.kind is PositionFindingKind.LEDGER_EMPTY
        )
        if uncertain:
            return "nothing found lost or doubled"
        if self.uncounted_rows:
            return "by the positions, nothing lost or doubled"
        return "nothing lost, nothing doubled"

    @property
    def verdict(self) -> str:
        """The summary of the findings, in one line."""
        lost, doubled = self.count(Harm.LOST), self.count(Harm.DOUBLED)
        refused = [
            finding.about
            for finding in self.findings
            if finding.kind is PositionFindingKind.BATCH_REFUSED
            and finding.severity is Severity.PROBLEM
        ]
        parts = [f"the next batch will be refused ({few(refused)})"] if refused else []
        if lost:
            parts.append(f"{counted(lost, 'record')} lost or not applied")
        if doubled:
            parts.append(f"{counted(doubled, 'record')} doubled")
        unproved = self.count(Harm.UNPROVED)
        if not (lost or doubled):
            parts.append(self._nothing(unproved))
        if self.uncounted_rows:
            parts.append("rows not counted (audit --rows)")
        if unproved:
            parts.append(f"{unproved:,} offsets that cannot be proved")
        accepted = self.count(Harm.ACCEPTED)
        if accepted:
            parts.append(f"{counted(accepted, 'record')} lost before and accepted")
        unread = dict.fromkeys(finding.about for finding in self.findings if finding.is_unread)
        open_findings = len([finding for finding in self.to_act_on if not finding.is_unread])
        if open_findings or not unread:
            parts.append(f"to act on: {open_findings}" if open_findings else "nothing to act on")
        if unread:
            parts.append(f"INCOMPLETE: {few(unread)} could not be read, see its fix")
        return ", ".join(parts)


def outcome(
    findings: Iterable[PositionFinding],
    *,
    compared: tuple[str, ...] = (),
    uncounted_rows: bool = False,
) -> AuditOutcome:
    """Return the outcome with `findings` sorted, the most severe last.

    A terminal shows the end of a long output.
    """
    order = list(Severity)
    ordered = sorted(findings, key=lambda finding: order.index(finding.severity))
    return AuditOutcome(findings=tuple(ordered), compared=compared, uncounted_rows=uncounted_rows)
