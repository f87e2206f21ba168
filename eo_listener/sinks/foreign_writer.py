"""Detects that another driver has written to a ledger, and makes the error. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from eo_listener.errors import ForeignWriterError
from eo_listener.model.ledger import Entry, Head
from eo_listener.offsets import TopicPartition

_SHOWN: Final = 3
_UNKNOWN: Final[Mapping[TopicPartition, str]] = MappingProxyType({})


def foreign_writer(
    label: str, entry: Entry, reason: str, partitions: Collection[TopicPartition]
) -> ForeignWriterError:
    """Return the error for an entry that was not written: another driver uses the ledger."""
    return ForeignWriterError(
        f"batch {entry.batch_id} of run {entry.run_id} was not written to {label}: {reason}",
        ranges={tp: entry.moves[tp].range for tp in partitions},
        cause="another driver writes under the same name: a newer driver took over, or an "
        "older one is still running",
        fix="Let only one of them run; if both are wanted, give each a name of its own: "
        'exactly_once(..., name="...")',
    )


def refuse_moved(label: str, entry: Entry, heads: Mapping[TopicPartition, Head]) -> None:
    """Raise ForeignWriterError if the ledger's `heads` are not the heads that `entry` expects."""
    if any(heads.get(tp) != move.expected for tp, move in entry.moves.items()):
        raise ledger_changed(label, entry, heads)


def ledger_changed(
    label: str,
    entry: Entry,
    heads: Mapping[TopicPartition, Head],
    moved_at: Mapping[TopicPartition, str] = _UNKNOWN,
) -> ForeignWriterError:
    """Return the error that names those `heads` of the ledger that `entry` did not expect.

    `moved_at` has the time at which each head was last moved, if the store keeps these times.
    """
    # If the store refused one of the entry's last moves, `heads` show the earlier moves of the same
    # entry: the error does not name these.
    changed = [
        tp
        for tp, move in entry.moves.items()
        if heads.get(tp) != move.expected and heads.get(tp) != entry.head(tp)
    ] or list(entry.moves)
    shown = "; ".join(_moved(tp, heads.get(tp), moved_at.get(tp)) for tp in changed[:_SHOWN])
    more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    reason = f"the ledger of {entry.query!r} has changed since this run read it ({shown}{more})"
    return foreign_writer(label, entry, reason, changed)


def _moved(tp: TopicPartition, head: Head | None, moved_at: str | None) -> str:
    if head is None:
        return f"{tp} is missing"
    time = "" if moved_at is None else f" at {moved_at}"
    return (
        f"{tp} is at {head.range.until}, moved by run {head.run_id} in batch {head.batch_id}{time}"
    )
