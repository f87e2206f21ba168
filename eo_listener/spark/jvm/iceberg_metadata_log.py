"""Older metadata of an Iceberg table, from its metadata log: snapshots that have expired since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

FILES: Final = 500
"""How many files are read at most: each has all snapshots that the table had then."""


class MetadataLog:
    """Reads the log's files, newest first; one of them is kept at a time.

    Snapshots never change, so what an older file says of one still holds. Ask for a snapshot after
    those that came later: a file that was passed is not read again.
    """

    def __init__(self, metadata: Any, read: Callable[[str], Any]) -> None:
        """`read` returns Java's metadata of a file, None where it was deleted."""
        self._at, self._read = metadata, read
        self._older: list[str] = []
        self._left = FILES

    def snapshot(self, snapshot_id: int) -> Any:
        """Java's snapshot; None where no file has it that is left. Raises as Java does."""
        found = self._at.snapshot(snapshot_id)
        while found is None and self._go_back():
            found = self._at.snapshot(snapshot_id)
        return found

    def _go_back(self) -> bool:
        if not self._older:
            self._older = [str(entry.file()) for entry in self._at.previousFiles()]
        if not self._older or not self._left:
            return False
        older = self._read(self._older[-1])
        if older is None:
            return False
        self._older.pop()
        self._left -= 1
        self._at = older
        return True
