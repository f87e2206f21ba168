"""The files that a snapshot of an Iceberg table has added and removed. Through Iceberg's own Java.

Every function raises what Java does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

UTIL: Final = "org.apache.iceberg.util.ContentFileUtil"


class ChangedFiles(NamedTuple):
    """Those of one snapshot, as Java has them; `deletes` are the files that delete rows."""

    added: tuple[Any, ...]
    removed: tuple[Any, ...]
    added_deletes: tuple[Any, ...]
    removed_deletes: tuple[Any, ...]

    @classmethod
    def of(cls, snapshot: Any, io: Any) -> ChangedFiles:
        """Read them from the manifests of a snapshot."""
        return cls(
            _all(snapshot.addedDataFiles(io)),
            _all(snapshot.removedDataFiles(io)),
            _all(snapshot.addedDeleteFiles(io)),
            _all(snapshot.removedDeleteFiles(io)),
        )

    def gone(self) -> frozenset[str]:
        """Where the files are that the table no longer has."""
        return frozenset(str(one.location()) for one in (*self.removed, *self.removed_deletes))

    def needed(self, util: Any) -> frozenset[str] | None:
        """Where the files are that the table must have for these changes to mean the same.

        None where a file deletes rows, and does not say of which file. `util` is the class of Java
        that reads it.
        """
        of = [util.referencedDataFileLocation(one) for one in self.added_deletes]
        if None in of:
            return None
        return self.gone() | {str(one) for one in of}

    @property
    def with_deletes(self) -> bool:
        """Whether files are among them that delete rows."""
        return bool(self.added_deletes or self.removed_deletes)

    def repeated(self, table: Any, behind: int) -> Any:
        """The operation on `table` that makes them again, not yet committed.

        What came until the snapshot `behind` is known to leave them right.
        """
        if self.with_deletes:
            # Else a deletion vector that is replaced is a conflict, and a history that has expired.
            delta = table.newRowDelta().validateFromSnapshot(behind)
            for file in self.removed:
                delta.removeRows(file)
            for file in self.added:
                delta.addRows(file)
            for file in self.added_deletes:
                delta.addDeletes(file)
            for file in self.removed_deletes:
                delta.removeDeletes(file)
            return delta
        if self.removed:
            overwrite = table.newOverwrite()
            for file in self.removed:
                overwrite.deleteFile(file)
            for file in self.added:
                overwrite.addFile(file)
            return overwrite
        append = table.newFastAppend()
        for file in self.added:
            append.appendFile(file)
        return append


def holds(changed: ChangedFiles, moves: Iterable[ChangedFiles], util: Any) -> bool:
    """Whether `changed` can be made again behind `moves`, which have left all rows as they were."""
    needed = changed.needed(util)
    changes = bool(changed.removed) or changed.with_deletes
    for one in moves:
        gone = one.gone()
        if gone if needed is None else not needed.isdisjoint(gone):
            return False
        if changes and one.added_deletes:
            return False  # a file has one deletion vector, and others may have written it anew
    return True


def _all(found: Any) -> tuple[Any, ...]:
    files, at = [], found.iterator()
    while at.hasNext():
        files.append(at.next())
    return tuple(files)
