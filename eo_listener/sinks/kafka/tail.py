"""What a target holds behind the ends that a batch has stored: what is there, and whose. No I/O.

What a replay writes is decided by the identities that are there, never by how many they are: other
producers may write in between, and so may a task that was given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import Unexpected, UnexpectedRecords
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.row_identity import RowIdentity


class TailRecord(NamedTuple):
    """A record, and which row it is; None where no sink of ours has written it."""

    partition: TopicPartition
    offset: int
    identity: RowIdentity | None


@dataclass(slots=True)
class Findings:
    """Collects what is unexpected."""

    _counts: Counter[Unexpected] = field(default_factory=Counter)
    _ranges: dict[Unexpected, dict[TopicPartition, OffsetRange]] = field(default_factory=dict)

    def add(self, kind: Unexpected, tp: TopicPartition, where: OffsetRange, count: int = 1) -> None:
        """Take up `count` records within `where`."""
        self._counts[kind] += count
        ranges = self._ranges.setdefault(kind, {})
        before = ranges.get(tp, where)
        ranges[tp] = OffsetRange(min(before.start, where.start), max(before.until, where.until))

    def with_those_of(self, other: Findings) -> Findings:
        """Both together, of different kinds."""
        return Findings(self._counts + other._counts, {**self._ranges, **other._ranges})

    def records(self) -> tuple[UnexpectedRecords, ...]:
        """All of it."""
        return tuple(
            UnexpectedRecords(kind, self._counts[kind], dict(ranges))
            for kind, ranges in self._ranges.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What was read: where each identity of the batch in question lies, and what else there is."""

    rows: Mapping[str, tuple[TopicPartition, int]]
    findings: Findings


def judge_tail(records: Iterable[TailRecord], *, writer: str, batch: int, max_tail: int) -> Tail:
    """Judge the records behind the ends that `writer` has stored for its batch of that number.

    Raises SettingsError where these are more than `max_tail` rows of the batch.
    """
    rows: dict[str, tuple[TopicPartition, int]] = {}
    findings = Findings()
    for tp, offset, identity in records:
        here = OffsetRange(offset, offset + 1)  # the only place where one is added to an offset
        if identity is None or identity.writer != writer:
            findings.add(Unexpected.FOREIGN, tp, here)
        elif identity.batch != batch:
            findings.add(Unexpected.LATE, tp, here)
        elif identity.values in rows:
            findings.add(Unexpected.REPEATED, tp, here)
        elif len(rows) == max_tail:
            raise _too_many(max_tail)
        else:
            rows[identity.values] = tp, offset
    return Tail(rows=rows, findings=findings)


def _too_many(max_tail: int) -> SettingsError:
    return SettingsError(
        f"the target holds more than max_tail={max_tail:,} rows of one batch, which have to be "
        "read back",
        cause="the batch was broken off, or others have written beside it; the driver keeps the "
        "identity of each of its rows meanwhile, some 320 bytes",
        fix=f"Give the driver's Python more memory, and KafkaSink(..., max_tail={2 * max_tail}); "
        "smaller batches from the next one on: maxOffsetsPerTrigger at the reader",
    )


def size_of(ranges: Mapping[TopicPartition, OffsetRange]) -> int:
    """How many offsets these are."""
    return sum(one.until - one.start for one in ranges.values())
