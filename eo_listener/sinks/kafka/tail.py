"""Judges the records of a target after the ends that a batch has stored. No I/O.

The identities of existing rows, never their number, decide which rows a replay writes: other
producers, and a task that the sink no longer waits for, may write between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from eo_listener.errors import SettingsError, TargetRecordsError, few
from eo_listener.model.ledger import Entry, Unexpected, UnexpectedRecords
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.row_identity import RowIdentity

MAX_TAIL: Final = 5_000_000
"""The most rows whose identities the driver keeps, at about 320 bytes each: 1.6 GB."""
ACCEPT: Final = 'on_repeated="accept"'


class TailRecord(NamedTuple):
    """A record and its row's identity, which is None if no sink of eo_listener wrote the record."""

    partition: TopicPartition
    offset: int
    identity: RowIdentity | None


@dataclass(slots=True)
class Findings:
    """Collects the unexpected records of a target."""

    _counts: Counter[Unexpected] = field(default_factory=Counter)
    _ranges: dict[Unexpected, dict[TopicPartition, OffsetRange]] = field(default_factory=dict)

    def add(
        self, kind: Unexpected, tp: TopicPartition, offsets: OffsetRange, count: int = 1
    ) -> None:
        """Add `count` records of this `kind` within `offsets`."""
        self._counts[kind] += count
        ranges = self._ranges.setdefault(kind, {})
        before = ranges.get(tp, offsets)
        ranges[tp] = OffsetRange(min(before.start, offsets.start), max(before.until, offsets.until))

    def merged_with(self, later: Findings) -> Findings:
        """Return these findings together with `later` findings of other kinds."""
        return Findings(self._counts + later._counts, {**self._ranges, **later._ranges})

    def records(self) -> tuple[UnexpectedRecords, ...]:
        """Return the unexpected records, by kind."""
        return tuple(
            UnexpectedRecords(kind, self._counts[kind], dict(ranges))
            for kind, ranges in self._ranges.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The records that were read: the places of the batch's rows, and findings about the rest.

    `rows` has the partition and offset of each row, by the row's identity.
    """

    rows: Mapping[str, tuple[TopicPartition, int]]
    findings: Findings


def judge_tail(records: Iterable[TailRecord], *, writer: str, batch: int) -> Tail:
    """Split `records` into the rows that `writer` sent in batch number `batch`, and all others.

    Raises SettingsError if there are more than MAX_TAIL rows of the batch.
    """
    rows: dict[str, tuple[TopicPartition, int]] = {}
    findings = Findings()
    for tp, offset, identity in records:
        here = OffsetRange(offset, offset + 1)  # the range of this record
        if identity is None or identity.writer != writer:
            findings.add(Unexpected.FOREIGN, tp, here)
        elif identity.batch != batch:
            findings.add(Unexpected.LATE, tp, here)
        elif identity.values in rows:
            findings.add(Unexpected.REPEATED, tp, here)
        elif len(rows) == MAX_TAIL:
            raise _too_many()
        else:
            rows[identity.values] = tp, offset
    return Tail(rows=rows, findings=findings)


def _too_many() -> SettingsError:
    return SettingsError(
        f"the target holds more than {MAX_TAIL:,} rows of one batch, which would have to be read "
        "back",
        cause="the batch was interrupted, or others wrote at the same time; the driver would "
        "have to keep the identity of each of its rows in memory",
        fix='Give the sink another name, KafkaSink(..., name="..."), and start once with '
        'exactly_once(..., on_first="accept"): an interrupted batch is then written '
        "whole, after the rows that it has already written. Use smaller batches: "
        "maxOffsetsPerTrigger on the reader",
    )


def size_of(ranges: Mapping[TopicPartition, OffsetRange]) -> int:
    """Return the number of offsets in `ranges`."""
    return sum(offsets.until - offsets.start for offsets in ranges.values())


def records_error(
    wrong: Sequence[UnexpectedRecords], entry: Entry, *, label: str, where: str
) -> TargetRecordsError:
    """Return the error for unexpected or missing records; `where` is a phrase: "after batch 5"."""
    cause, fix = _reason({records.kind for records in wrong})
    return TargetRecordsError(
        f"{label}: batch {entry.batch_id} is not written: {where}, the target has "
        f"{'; '.join(map(describe, wrong))}",
        ranges=enclosing(records.ranges for records in wrong),
        cause=cause,
        fix=fix,
    )


def describe(records: UnexpectedRecords) -> str:
    """Return the number, kind and place of `records` as text."""
    places = few(f"{tp} {offsets}" for tp, offsets in sorted(records.ranges.items()))
    return f"{records.count} {records.kind.value} (within {places})"


def enclosing(
    mappings: Iterable[Mapping[TopicPartition, OffsetRange]],
) -> dict[TopicPartition, OffsetRange]:
    """Return for each partition the smallest range that contains all its ranges in `mappings`."""
    hulls: dict[TopicPartition, OffsetRange] = {}
    for ranges in mappings:
        for tp, offsets in ranges.items():
            hull = hulls.get(tp, offsets)
            hulls[tp] = OffsetRange(min(hull.start, offsets.start), max(hull.until, offsets.until))
    return hulls


def _reason(kinds: Collection[Unexpected]) -> tuple[str, str]:
    """Return the cause and the fix for these kinds of unexpected records."""
    if {*kinds} == {Unexpected.UNKNOWN}:
        cause = (
            "the identity of a row changes each time it is computed (the time, a random value), "
            "or the transform has changed since the batch began"
        )
        fix = (
            "Let the transform compute the same identities each time; then start once with "
            f"{ACCEPT}: existing rows stay, and the missing rows of the batch are written after "
            "them"
        )
        return cause, fix
    if Unexpected.LOST in kinds:
        cause = (
            "a broker lost acknowledged records, Kafka deleted records before they were read "
            "back, or somebody truncated the log"
        )
    else:
        cause = (
            "another driver of this query wrote at the same time, or records of a driver or a "
            "task arrived late. Without transactions no writer can be fenced"
        )
    return cause, (
        "Make sure that a single driver runs, and correct the target, using the header "
        f"eo-identity; then start once with {ACCEPT}"
    )
