"""What makes a target wrong without transactions, as the error that says so. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from eo_listener.model.errors import TargetRecordsError, few
from eo_listener.model.ledger import Entry, Unexpected, UnexpectedRecords
from eo_listener.model.offsets import OffsetRange, TopicPartition

ACCEPT: Final = 'on_repeated="accept"'


def records_error(
    wrong: Sequence[UnexpectedRecords], entry: Entry, *, label: str, where: str
) -> TargetRecordsError:
    """Return the error for records that should not be there, or are missing; `where` that is."""
    cause, fix = _reason({one.kind for one in wrong})
    return TargetRecordsError(
        f"{label}: batch {entry.batch_id} is not written, since {where} there are "
        + "; ".join(describe(one) for one in wrong),
        ranges=around(one.ranges for one in wrong),
        cause=cause,
        fix=fix,
    )


def describe(found: UnexpectedRecords) -> str:
    """Say what it is, and where."""
    where = few(f"{tp} {one}" for tp, one in sorted(found.ranges.items()))
    return f"{found.count} {found.kind.value} (within {where})"


def around(
    many: Iterable[Mapping[TopicPartition, OffsetRange]],
) -> dict[TopicPartition, OffsetRange]:
    """One range for each partition, around all of its ranges."""
    found: dict[TopicPartition, OffsetRange] = {}
    for ranges in many:
        for tp, one in ranges.items():
            before = found.get(tp, one)
            found[tp] = OffsetRange(min(before.start, one.start), max(before.until, one.until))
    return found


def _reason(kinds: Collection[Unexpected]) -> tuple[str, str]:
    """Cause and fix."""
    if {*kinds} == {Unexpected.UNKNOWN}:
        cause = (
            "the identity of a row changes each time that it is computed (the time, a random "
            "value), or the transform was changed since the batch was begun"
        )
        fix = (
            "Have the transform compute the same identities each time; then start with "
            f"{ACCEPT}, once: the rows that are there stay, and those of the batch that are not "
            "there are written behind them"
        )
        return cause, fix
    if Unexpected.LOST in kinds:
        cause = (
            "a broker lost what it had acknowledged, Kafka deleted records before they were read "
            "back, or somebody truncated the log"
        )
    else:
        cause = (
            "another driver of this query wrote at the same time, or what a driver or a task sent "
            "came after it was given up. Without transactions nobody can be fenced"
        )
    return cause, (
        "See to it that a single driver runs, and make the target right, by the header "
        f"eo-identity; then start with {ACCEPT}, once"
    )
