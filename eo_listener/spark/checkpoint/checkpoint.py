"""Reads a checkpoint as a whole: its planned and committed batches, and their end offsets."""

from __future__ import annotations

import contextlib
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from eo_listener.offsets import Offsets
from eo_listener.spark.checkpoint import log_files
from eo_listener.spark.checkpoint.errors import (
    CheckpointError,
    FileFinding,
    FileFindingKind,
    Unreadable,
)
from eo_listener.spark.checkpoint.location import NONE, Location
from eo_listener.spark.checkpoint.log_files import BatchOffsets, check_commit, decode_object

LIMIT = 16 * 2**20  # bytes; a batch of 100,000 partitions takes about 2 MB
_SMALL = 64 * 2**10
_TRIES = 30
# The name of a batch's file is the batch's number. Files with other names are temporary
# (`.7.<uuid>.tmp`, `7.tmp`), checksums (`.7.crc`) or compactions (`7.compact`), which Spark ignores
# too.
_BATCH = re.compile(r"0|[1-9][0-9]{0,17}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The numbers of the batches whose files still exist, in order."""

    planned: tuple[int, ...]
    committed: tuple[int, ...]

    @property
    def skipped(self) -> tuple[int, ...]:
        """The batches before the newest planned batch that are not committed.

        Spark does not run them again. The query must not use continuous processing.
        """
        last = max(self.committed, default=-1)
        return tuple(batch for batch in self.planned[:-1] if batch > last)

    @property
    def needed(self) -> tuple[int, ...]:
        """The committed batches whose offsets Spark reads at the query's next start.

        They are the newest batch and the batch before it. With asynchronous progress tracking, a
        batch may have no files at all.
        """
        newest = max((*self.planned, *self.committed), default=0)
        return tuple(batch for batch in self.committed[-2:] if batch >= newest - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """The newest committed batch that can be read, and the files that could not be used.

    `offsets` is None if there is no such batch. `findings` name the files that were skipped.
    """

    offsets: BatchOffsets | None
    findings: tuple[FileFinding, ...]


class Checkpoint:
    """Reads one checkpoint; every call reads its files again. Only one thread at a time may use it.

    Every method raises StorageError if the storage cannot be reached, and CheckpointError for a
    file that is missing or invalid.
    """

    def __init__(self, location: str | Location, options: Mapping[str, Any] = NONE) -> None:
        self.location = location if isinstance(location, Location) else Location(location, options)
        self._lines: int | None = None

    def exists(self) -> bool:
        """Return True if the folder exists and looks like a checkpoint.

        Raises CheckpointError if the folder has files but no `metadata`.
        """
        # When a query starts, its folder at first has only a temporary file.
        names = {name for name in self.location.names() or () if not name.startswith(".")}
        if not names:
            return False
        if "metadata" not in names:
            detail = "this is not a checkpoint"
            if names & {"offsets", "commits", "sources"}:
                detail = "other parts of a checkpoint exist"
            raise self._error(
                FileFinding(file="metadata", kind=FileFindingKind.MISSING, detail=detail)
            )
        return True

    def query_id(self) -> str:
        """Return the id of the query, which stays the same over restarts."""
        return self._parse("metadata", _query_id, _SMALL)

    def batches(self) -> Batches:
        """Return the numbers of all batches whose files exist."""
        return Batches(planned=self._numbers("offsets"), committed=self._numbers("commits"))

    def offsets(self, batch: int) -> BatchOffsets:
        """Return the end offsets of one batch, committed or not."""
        return self._parse(
            f"offsets/{batch}", lambda content: BatchOffsets.parse(batch, _text(content))
        )

    def plan_id(self, batch: int) -> str:
        """Return a digest of a batch's plan, which differs for another plan of the same batch."""
        return self._parse(f"offsets/{batch}", lambda content: log_files.plan_id(_text(content)))

    def committed(self) -> Durable:
        """Return the newest batch that has a file in `commits/` and whose offsets can be read.

        The method stops after 30 batches that cannot be read: older batches are of no use. Gaps are
        normal: Spark deletes old batches, and asynchronous progress tracking never writes some
        batches. It is also normal that the last planned batch is not committed.
        """
        done = self._numbers("commits")
        planned = self._numbers("offsets") if done else ()
        findings: list[FileFinding] = []
        for batch in sorted(set(done) & set(planned), reverse=True):
            try:
                self._parse(f"commits/{batch}", lambda content: check_commit(_text(content)))
                offsets = self.offsets(batch)
                self._check_sources(offsets, planned)
            except CheckpointError as error:
                findings.append(error.finding)
                if len(findings) == _TRIES:
                    break
            else:
                return Durable(offsets=offsets, findings=tuple(findings))
        if done and not findings:
            findings.append(FileFinding(file=f"offsets/{done[-1]}", kind=FileFindingKind.MISSING))
        return Durable(offsets=None, findings=tuple(findings))

    def initial(self, source: int | str) -> Offsets | None:
        """Return the offsets at which a Kafka source began, or None if the checkpoint lacks them.

        `source` is the index of the source among the distinct sources, as in a progress event. The
        checkpoint lacks these offsets under continuous processing, and for sources other than
        Kafka.
        """
        try:
            return self._parse(f"sources/{source}/0", log_files.parse_initial_offsets)
        except CheckpointError as error:
            if error.finding.kind is FileFindingKind.MISSING:
                return None
            raise

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the names in a folder of the checkpoint, without hidden files.

        Raises StorageError.
        """
        names = self.location.names(name) or ()
        return tuple(name for name in names if not name.startswith("."))

    def _numbers(self, folder: str) -> tuple[int, ...]:
        names = self.location.names(folder) or ()
        return tuple(sorted(int(name) for name in names if _BATCH.fullmatch(name)))

    def _check_sources(self, offsets: BatchOffsets, planned: tuple[int, ...]) -> None:
        """Raise CheckpointError if a batch lacks sources: then its file was cut off after a line.

        The number of a query's sources never changes, unless the sources have names (Spark 4.2,
        version 2).
        """
        if any(not source.id.isdigit() for source in offsets.sources):
            return
        if self._lines is None:
            self._lines = self._expected(offsets.batch, planned)
        count = len(offsets.sources)
        if count < self._lines:
            raise self._error(
                FileFinding(
                    file=f"offsets/{offsets.batch}",
                    kind=FileFindingKind.LOST_SOURCE,
                    detail=f"{count} of {self._lines}",
                )
            )
        self._lines = count

    def _expected(self, batch: int, planned: tuple[int, ...]) -> int:
        """Return the number of the query's sources, read from `sources/` and from another batch."""
        folders = self.location.names("sources") or ()
        expected = max((int(name) + 1 for name in folders if _BATCH.fullmatch(name)), default=1)
        other_batches = [number for number in planned if number != batch]
        if other_batches:
            # An unreadable batch is ignored here, and reported when its turn comes.
            with contextlib.suppress(CheckpointError):
                expected = max(expected, len(self.offsets(other_batches[-1]).sources))
        return expected

    def _parse(self, file: str, parse: Callable[[bytes], T], limit: int = LIMIT) -> T:
        try:
            return parse(self._content(file, limit))
        except Unreadable as fault:
            raise self._error(fault.in_file(file)) from None

    def _content(self, file: str, limit: int) -> bytes:
        content = self.location.read(file, limit + 1)
        if content is None:
            raise Unreadable(FileFindingKind.MISSING)
        if not content:
            raise Unreadable(FileFindingKind.EMPTY)
        if len(content) > limit:
            raise Unreadable(FileFindingKind.TOO_LARGE, f"more than {limit} bytes")
        if self.location.local:
            folder, slash, name = file.rpartition("/")
            sums = self.location.read(folder + slash + f".{name}.crc", limit)
            if sums is not None and not matches_checksum(content, sums):
                raise Unreadable(FileFindingKind.CHECKSUM)
        return content

    def _error(self, finding: FileFinding) -> CheckpointError:
        return CheckpointError(str(self.location), finding)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        ends = error.end >= len(content) and error.reason == "unexpected end of data"
        raise Unreadable(
            FileFindingKind.CUT if ends else FileFindingKind.GARBLED, "not UTF-8"
        ) from None


def _query_id(content: bytes) -> str:
    query = decode_object(_text(content)).get("id")
    if not isinstance(query, str) or not _UUID.fullmatch(query):
        raise Unreadable(FileFindingKind.GARBLED, "it holds no query id")
    return query


_CHECKSUM_MARK = b"crc\0"


def matches_checksum(content: bytes, checksum: bytes) -> bool:
    """Return True if `content` matches `checksum`, or if `checksum` is not in Hadoop's format.

    Source: org.apache.hadoop.fs.ChecksumFileSystem: `crc`, a zero byte, the size of a chunk as
    four bytes, then the CRC-32 of each chunk.
    """
    if not checksum.startswith(_CHECKSUM_MARK) or len(checksum) < len(_CHECKSUM_MARK) + 4:
        return not _CHECKSUM_MARK.startswith(checksum[: len(_CHECKSUM_MARK)])
    (chunk,) = struct.unpack_from(">I", checksum, len(_CHECKSUM_MARK))
    return chunk > 0 and checksum[len(_CHECKSUM_MARK) + 4 :] == _sums(content, chunk)


def _sums(content: bytes, chunk: int) -> bytes:
    chunks = (content[start : start + chunk] for start in range(0, len(content), chunk))
    return b"".join(struct.pack(">I", zlib.crc32(part)) for part in chunks)
