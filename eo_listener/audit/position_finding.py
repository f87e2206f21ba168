"""What an audit finds where positions differ, and what it says of the whole. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from types import MappingProxyType

from eo_listener.audit.intervals import Intervals, union
from eo_listener.model.errors import counted, few
from eo_listener.model.offsets import OffsetRange, TopicPartition

SHOWN = 1000
"""How many ranges of a finding its document has, at most."""


class Severity(Enum):
    """How much a finding matters. Only the last two are something to act on."""

    FINE = "fine"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class Harm(Enum):
    """What has become of the records of a finding's ranges."""

    NONE = "none"
    LOST = "lost"
    DOUBLED = "doubled"
    UNPROVED = "unproved"
    ACCEPTED = "lost and accepted"


class PositionFindingKind(Enum):
    """What was found; programs go by these, and they do not change."""

    AGREED = "agreed"
    TOPIC_GONE = "topic gone"
    TOPIC_RECREATED = "topic recreated"
    BEYOND_END = "beyond the end of the log"
    RETENTION = "deleted before it was read"
    OPEN_TRANSACTION = "open transaction"
    HANGING_TRANSACTION = "hanging transaction"
    NEW_PARTITIONS = "new partitions"
    CHECKPOINT_MISSING = "no checkpoint"
    CHECKPOINT_DAMAGED = "checkpoint damaged"
    BATCH_IN_DOUBT = "batch in doubt"
    NOT_KAFKA = "sources that are not Kafka"
    GROUP_EMPTY = "group empty"
    GROUP_LACKS = "group lacks partitions"
    GROUP_BEHIND = "group behind"
    GROUP_AHEAD = "group ahead"
    GROUP_WITHHELD = "group withheld"
    GROUP_FOREIGN = "group with foreign commits"
    GROUP_UNSTABLE = "transaction on the group"
    LEDGER_EMPTY = "ledger empty"
    LEDGER_RENAMED = "ledger under another name"
    LEDGER_LACKS = "ledger lacks partitions"
    LEDGER_BEHIND = "ledger behind"
    LEDGER_TAKEN_BACK = "ledger taken back"
    LEDGER_AHEAD = "ledger ahead"
    LEDGER_MISFIT = "ledger does not fit the plan"
    LEDGER_FOREIGN = "ledger of another query"
    TARGET_RECREATED = "target recreated"
    SINKS_DIFFER = "sinks differ"
    HISTORY_MISSING = "history with missing offsets"
    HISTORY_REPEATED = "history with repeated offsets"
    GAP_ACCEPTED = "gap accepted"
    BATCH_BEGUN = "batch begun"
    ROWS_MISSING = "rows missing"
    ROWS_DOUBLED = "rows doubled"
    ROWS_WRONG = "rows that should not be there"
    ROWS_UNPROVABLE = "rows that cannot be proved"
    ROWS_EXPLAINED = "rows explained"
    NOT_READ = "not read"


_UNCERTAIN = frozenset(
    {
        PositionFindingKind.TOPIC_GONE,
        PositionFindingKind.TOPIC_RECREATED,
        PositionFindingKind.BEYOND_END,
        PositionFindingKind.CHECKPOINT_MISSING,
        PositionFindingKind.CHECKPOINT_DAMAGED,
        PositionFindingKind.LEDGER_EMPTY,
        PositionFindingKind.LEDGER_RENAMED,
        PositionFindingKind.LEDGER_FOREIGN,
        PositionFindingKind.LEDGER_TAKEN_BACK,
        PositionFindingKind.TARGET_RECREATED,
        PositionFindingKind.BATCH_BEGUN,
        PositionFindingKind.NOT_READ,
    }
)
"""Where something could not be compared, so that nobody knows that nothing is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionFinding:
    """One finding: `about` names what it is of, `fix` is a command or the code to type.

    `ranges` are the offsets in question, by partition; `harm` what became of their records.
    """

    kind: PositionFindingKind
    severity: Severity
    about: str
    what: str
    cause: str = ""
    fix: str = ""
    ranges: Mapping[TopicPartition, Intervals] = field(default_factory=lambda: MappingProxyType({}))
    harm: Harm = Harm.NONE

    @property
    def is_unread(self) -> bool:
        """Whether it says that something could not be read."""
        return self.kind is PositionFindingKind.NOT_READ

    @property
    def matters(self) -> bool:
        """Whether somebody has to act on it."""
        return self.severity in (Severity.WARNING, Severity.PROBLEM)

    def document(self) -> dict[str, object]:
        """Its form in JSON."""
        return {
            "kind": self.kind.value,
            "severity": self.severity.value,
            "about": self.about,
            "what": self.what,
            "cause": self.cause,
            "fix": self.fix,
            "harm": self.harm.value,
            "offsets": sum(one.until - one.start for ones in self.ranges.values() for one in ones),
            "ranges": list(islice(self._rows(), SHOWN)),
        }

    def _rows(self) -> Iterator[list[object]]:
        """Topic, partition, start and until of each range."""
        return ([*tp, *one] for tp, ones in sorted(self.ranges.items()) for one in ones)


def single(ranges: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, Intervals]:
    """The same, as a finding has them: several ranges of each partition."""
    return {tp: (one,) for tp, one in ranges.items()}


def size(ranges: Mapping[TopicPartition, OffsetRange]) -> int:
    """How many offsets these are."""
    return sum(one.until - one.start for one in ranges.values())


def listed(ranges: Mapping[TopicPartition, OffsetRange]) -> str:
    """Some of them, for people."""
    return few(f"{tp} {one}" for tp, one in sorted(ranges.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """All findings; `verdict` is what they come to, in one line."""

    findings: tuple[PositionFinding, ...]

    @property
    def to_act_on(self) -> tuple[PositionFinding, ...]:
        """Those that matter."""
        return tuple(one for one in self.findings if one.matters)

    @property
    def complete(self) -> bool:
        """Whether all could be read that was asked for."""
        return not any(one.is_unread for one in self.findings)

    def count(self, harm: Harm) -> int:
        """How many offsets have suffered it; each of a partition counts once."""
        found: dict[TopicPartition, list[OffsetRange]] = {}
        for finding in self.findings:
            if finding.harm is harm:
                for tp, ranges in finding.ranges.items():
                    found.setdefault(tp, []).extend(ranges)
        return sum(one.until - one.start for every in found.values() for one in union(every))

    def document(self) -> dict[str, object]:
        """Its form in JSON."""
        return {
            "verdict": self.verdict,
            "complete": self.complete,
            "lost": self.count(Harm.LOST),
            "doubled": self.count(Harm.DOUBLED),
            "accepted": self.count(Harm.ACCEPTED),
            "unproved": self.count(Harm.UNPROVED),
            "to_act_on": len(self.to_act_on),
            "findings": [finding.document() for finding in self.findings],
        }

    @property
    def verdict(self) -> str:
        """One line."""
        lost, doubled = self.count(Harm.LOST), self.count(Harm.DOUBLED)
        parts = []
        if lost:
            parts.append(f"{counted(lost, 'record')} lost or not applied")
        if doubled:
            parts.append(f"{counted(doubled, 'record')} doubled")
        unproved = self.count(Harm.UNPROVED)
        if not parts:
            uncertain = unproved or any(
                one.kind in _UNCERTAIN
                for one in self.findings
                if one.matters or one.kind is PositionFindingKind.LEDGER_EMPTY
            )
            parts.append(
                "nothing found lost or doubled" if uncertain else "nothing lost, nothing doubled"
            )
        if unproved:
            parts.append(f"{unproved:,} offsets that cannot be proved")
        accepted = self.count(Harm.ACCEPTED)
        if accepted:
            parts.append(f"{counted(accepted, 'record')} lost before and accepted")
        unread = dict.fromkeys(one.about for one in self.findings if one.is_unread)
        left = len([one for one in self.to_act_on if not one.is_unread])
        if left or not unread:
            parts.append(f"to act on: {left}" if left else "nothing to act on")
        if unread:
            parts.append(f"INCOMPLETE: {few(unread)} could not be read, see its fix")
        return ", ".join(parts)


def outcome(findings: Iterable[PositionFinding]) -> AuditOutcome:
    """Put findings in order: what matters most comes last, where a terminal shows it."""
    order = list(Severity)
    ordered = sorted(findings, key=lambda one: order.index(one.severity))
    return AuditOutcome(findings=tuple(ordered))
