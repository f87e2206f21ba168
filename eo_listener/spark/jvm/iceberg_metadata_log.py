"""Finds expired snapshots of an Iceberg table in the older files of its metadata log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

FILES: Final = 5000
"""The most files to read in a search. A file has all snapshots that the table had at that time."""
_SOME: Final = 500
"""The files between two log lines of a search; reading them takes a minute on an object store."""
_TOLERANCE: Final = 60_000
"""The milliseconds by which a file may be older than the previous file, as Iceberg allows."""

logger = logging.getLogger("eo_listener")


class MetadataSearch(NamedTuple):
    """The extent of a search: the number of `files` read, back to the time `back_to` (in ms).

    `deleted` is a file that the log names and that no longer exists. `bounded` is True if the
    search stopped after FILES files.
    """

    files: int = 0
    back_to: int | None = None
    deleted: str | None = None
    bounded: bool = False


class MetadataLog:
    """Searches the files of the metadata log by time, and reads no more files than needed.

    When a snapshot was committed, its parent existed, and so did the snapshot from which it was
    cherry-picked. So the first file since that commit has these snapshots. If the commit itself
    expired them, the file before that file has them. Snapshots never change, so an older file's
    record of a snapshot is valid. The current metadata file names about a hundred older files, and
    the oldest of these names about a hundred more.
    """

    def __init__(self, metadata: Any, read: Callable[[str], Any]) -> None:
        """Begin the search with the table's current metadata, `metadata`.

        `read` returns the metadata of a file, as Java's object, or None if the file was deleted.
        """
        self._at = self._newest = metadata
        self._read = read
        self._entries: list[tuple[int, str]] = []
        self._whole: bool | None = None
        """True if the known entries of the log are complete, None before the first read."""
        self.search = MetadataSearch()

    def snapshot(self, snapshot_id: int, *, child: int, committed: int) -> Any:
        """Return Java's snapshot, or None if no file has it. Raises the errors of Java.

        `child` is a snapshot that was made from the snapshot to find, and `committed` the time of
        `child` in ms.
        """
        for metadata in self._likely(child, committed):
            snapshot = metadata.snapshot(snapshot_id)
            if snapshot is not None:
                return snapshot
        return None

    def _likely(self, child: int, committed: int) -> Iterator[Any]:
        """Yield metadata that may have the snapshot from which `child` was made.

        The likeliest comes first.
        """
        yield self._at
        if self._whole is None:
            self._entries = _entries(self._newest)
            self._whole = not self._entries
        while not self._whole and self._entries[0][0] >= committed:
            if (older := self._go_back()) is not None:
                yield older
        at, until = self._place(committed)
        before, since = self._entries[:at], self._entries[at:]
        read_one = False
        for time, file in since:
            if read_one and time > until:
                break
            if (metadata := self._open(time, file)) is None:
                continue
            yield metadata
            read_one = True
            if metadata.snapshot(child) is not None:
                break
        for entry in before[-1:]:
            if entry in self._entries and (metadata := self._open(*entry)) is not None:
                yield metadata

    def _place(self, committed: int) -> tuple[int, int]:
        """Return the index of the first file since `committed`, and the time up to which to search.

        The time of a file is the time of its last snapshot. If a transaction made several
        snapshots, the other snapshots have different times, so the clocks of other writers matter
        too.
        """
        times = [time for time, _ in self._entries]
        if committed in times:
            return times.index(committed), committed
        first = next((n for n, time in enumerate(times) if time >= committed), len(times))
        return first, committed + (_TOLERANCE if first else 0)  # else earlier files were deleted

    def _go_back(self) -> Any:
        """Read the oldest known file, which names older files; return None if that fails."""
        metadata = self._open(*self._entries[0])
        older = [] if metadata is None else _entries(metadata)
        self._whole = not older
        self._entries[:0] = older
        return metadata

    def _open(self, time: int, file: str) -> Any:
        """Return the metadata of a file.

        Returns None if the file was deleted, or if the search has already read FILES files.
        """
        search = self.search
        if search.files >= FILES:
            self.search = search._replace(bounded=True)
            return None
        metadata = self._read(file)
        if metadata is None:  # Iceberg deletes the oldest files first
            places = [n for n, entry in enumerate(self._entries) if entry[1] == file]
            del self._entries[: places[0] + 1 if places else 0]
            self._whole = True
            self.search = search._replace(deleted=file)
            return None
        back_to = time if search.back_to is None else min(time, search.back_to)
        self.search = search._replace(files=search.files + 1, back_to=back_to)
        if self.search.files % _SOME == 0:
            logger.info("%d older metadata files of a table were read", self.search.files)
        self._at = metadata
        return metadata


def _entries(metadata: Any) -> list[tuple[int, str]]:
    """Return the earlier files that `metadata` names, as time in ms and path, oldest first."""
    return [(int(entry.timestampMillis()), str(entry.file())) for entry in metadata.previousFiles()]
