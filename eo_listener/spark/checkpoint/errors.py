"""The faults that a checkpoint's files can have, and the error that reports a fault."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from eo_listener.errors import FormatError


class FileFindingKind(Enum):
    """The kind of a fault. Its value completes a sentence that begins with the file's name."""

    MISSING = "is missing"
    EMPTY = "is empty"
    CUT = "is truncated"
    GARBLED = "is not in the form that Spark writes"
    OUT_OF_RANGE = "holds a number that is not an offset"
    TOO_NEW = "is in a newer format than this eo_listener reads"
    TOO_LARGE = "is larger than such a file can be"
    CHECKSUM = "does not match its checksum"
    LOST_SOURCE = "lacks the line of one of the query's sources"


_CAUSES = {
    FileFindingKind.MISSING: "it was deleted, or copied without the other files",
    FileFindingKind.EMPTY: "the machine or disk failed while it was being written",
    FileFindingKind.CUT: "the machine or disk failed while it was being written or copied",
    FileFindingKind.GARBLED: "it was damaged, edited, or written by another program",
    FileFindingKind.OUT_OF_RANGE: "it was damaged or edited",
    FileFindingKind.TOO_NEW: "a newer Spark runs the query",
    FileFindingKind.TOO_LARGE: "it was damaged, or written by another program",
    FileFindingKind.CHECKSUM: "it was damaged, or edited without removing its .crc file",
    FileFindingKind.LOST_SOURCE: "it was truncated between two lines, or sources were removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFinding:
    """A file that cannot be used, and its fault.

    `file` is the path below the checkpoint, such as `offsets/7`. `detail` describes the fault. It
    quotes at most a name or a number from the file, whose content may be anything.
    """

    file: str
    kind: FileFindingKind
    detail: str = ""

    @property
    def cause(self) -> str:
        """The most likely cause of the fault."""
        return _CAUSES[self.kind]

    def __str__(self) -> str:
        return f"{self.file} {self.kind.value}" + (f" ({self.detail})" if self.detail else "")


class CheckpointError(FormatError):
    """A file of a checkpoint cannot be used; `finding` has the file and its fault."""

    def __init__(self, where: str, finding: FileFinding) -> None:
        self.finding = finding
        super().__init__(
            f"checkpoint {where}: {finding}",
            cause=finding.cause,
            fix="Check the file; eo_listener does not use it",
        )


class Unreadable(Exception):  # noqa: N818  # not an EoListenerError: a fault in a text
    """The text of a file has a fault; `in_file` returns the finding for it."""

    def __init__(self, kind: FileFindingKind, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail

    def in_file(self, file: str) -> FileFinding:
        """Return the finding for the file `file`."""
        return FileFinding(file=file, kind=self.kind, detail=self.detail)
