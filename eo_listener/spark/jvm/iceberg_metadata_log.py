"""Older metadata of an Iceberg table, from its metadata log: snapshots that have expired since."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

FILES: Final = 5000
"""How many files are read at most: each has all snapshots that the table had then."""
_SOME: Final = 500
"""After so many a line is logged: on an object store they take a minute."""
_TOLERANCE: Final = 60_000
"""By how many milliseconds a file may be older than the one before it, for Iceberg to take it."""

logger = logging.getLogger("eo_listener")


class MetadataSearch(NamedTuple):
    """The extent of a search: `files` of the log, the oldest of which is from `back_to` (ms).

    `deleted` is a file that the log names and that no longer exists. `bounded`: the search ended at
    FILES.
    """

    files: int = 0
    back_to: int | None = None
    deleted: str | None = None
    bounded: bool = False


class MetadataLog:
    """Reads the log's files: by time, and no more of them than needed.

    A snapshot's parent existed when it was committed, and so did the snapshot it was cherry-picked
    from. So the first file since then has them, unless that commit itself has expired them: then
    the file before. Snapshots never change, so an older file's record of a snapshot still holds.
    The current metadata name a hundred files or so, and the oldest of these a hundred more.
    """

    def __init__(self, metadata: Any, read: Callable[[str], Any]) -> None:
        """`read` returns Java's metadata of a file, None if it was deleted."""
        self._at = self._newest = metadata
        self._read = read
        self._entries: list[tuple[int, str]] = []
        self._whole: bool | None = None
        """True if the entries are complete; None before the first was read."""
        self.search = MetadataSearch()

    def snapshot(self, snapshot_id: int, *, child: int, committed: int) -> Any:
        """Java's snapshot; None if no remaining file has it. Raises as Java does.

        `child` is the snapshot that was made of it, and `committed` that one's time in ms.
        """
        for metadata in self._likely(child, committed):
            snapshot = metadata.snapshot(snapshot_id)
            if snapshot is not None:
                return snapshot
        return None

    def _likely(self, child: int, committed: int) -> Iterator[Any]:
        """The metadata that can have what `child` was made of, the likeliest first."""
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
        """Which file is the first since then, and until when a later one can be.

        A file has the time of its last snapshot. Of a transaction with several it is not that of
        each, and then the clocks of others count too.
        """
        times = [time for time, _ in self._entries]
        if committed in times:
            return times.index(committed), committed
        first = next((n for n, time in enumerate(times) if time >= committed), len(times))
        return first, committed + (_TOLERANCE if first else 0)  # else what is before was deleted

    def _go_back(self) -> Any:
        """Read the oldest file that is known, which names those before it; None without it."""
        metadata = self._open(*self._entries[0])
        older = [] if metadata is None else _entries(metadata)
        self._whole = not older
        self._entries[:0] = older
        return metadata

    def _open(self, time: int, file: str) -> Any:
        """Metadata of a file; None if it was deleted, or FILES were read."""
        search = self.search
        if search.files >= FILES:
            self.search = search._replace(bounded=True)
            return None
        metadata = self._read(file)
        if metadata is None:  # Iceberg deletes the oldest first
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
    """The files before it, as its log has them: time in ms and place, the oldest first."""
    return [(int(entry.timestampMillis()), str(entry.file())) for entry in metadata.previousFiles()]
