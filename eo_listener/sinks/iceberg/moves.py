"""Judges the commits that other writers made to main during a batch, by their snapshots. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from eo_listener.sinks.iceberg.snapshots import Snapshot

_APPEND: Final = "append"
_REPLACE: Final = "replace"
"""Iceberg's operation that changes files but no rows: compaction, and new manifests."""


def since(
    read: Callable[[int], Snapshot | None], main: int | None, base: int | None
) -> tuple[Snapshot, ...] | None:
    """Return the snapshots from `main` back to `base`, without `base`, from newest to oldest.

    Return None if `base` is not a known ancestor of `main`: main was rolled back, or a snapshot
    between them has expired.
    """
    snapshots: list[Snapshot] = []
    while main != base:
        snapshot = None if main is None else read(main)
        if snapshot is None:
            return None
        snapshots.append(snapshot)
        main = snapshot.parent
    return tuple(snapshots)


def leave_rows(moves: Sequence[Snapshot]) -> bool:
    """Return True if `moves` have left every row of main unchanged."""
    return all(snapshot.operation in (_APPEND, _REPLACE) for snapshot in moves)


def replacing(moves: Sequence[Snapshot]) -> tuple[int, ...]:
    """Return the ids of the `moves` that have moved rows to other files."""
    return tuple(snapshot.id for snapshot in moves if snapshot.operation == _REPLACE)


def has_appends(moves: Sequence[Snapshot]) -> bool:
    """Return True if one of `moves` may have added rows; a summary may omit their number."""
    return any(snapshot.operation == _APPEND for snapshot in moves)


def described(moves: Sequence[Snapshot] | None) -> str:
    """Return a text that describes `moves` and the author of the last one."""
    if not moves:
        return "main was rolled back, or some of its snapshots have expired"
    counts = Counter(str(snapshot.operation) for snapshot in moves)
    listed = ", ".join(f"{count} {operation}" for operation, count in sorted(counts.items()))
    last = moves[0]
    author = f"a batch of {last.ledger.query!r}" if last.ledger is not None else last.written_by
    return f"{listed}, the last by {author or 'a program that does not give its name'}"
