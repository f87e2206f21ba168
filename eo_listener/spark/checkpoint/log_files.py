"""Reads the texts of a checkpoint's files strictly: a damaged text raises Unreadable.

Sources: Spark's CommitLog, KafkaSourceInitialOffsetWriter, OffsetSeqLog and OffsetSeqMetadata (3.5
to 4.2), OffsetMap (4.2, opt-in by `spark.sql.streaming.offsetLog.formatVersion=2`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable

_LONGEST_NUMBER = 20  # a Java long has 19 digits and a sign


def decode(text: str) -> Any:
    """Read one JSON value. Raises Unreadable, also if an object has the same name twice."""
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_refuse
        )
    except json.JSONDecodeError as error:
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        kind = FileFindingKind.CUT if ends else FileFindingKind.GARBLED
        raise Unreadable(kind, "its JSON is truncated" if ends else "not JSON") from None
    except RecursionError:
        raise Unreadable(FileFindingKind.GARBLED, "its JSON is nested too deeply") from None


def decode_object(text: str) -> Mapping[str, Any]:
    """Read a JSON object. Raises Unreadable."""
    value = decode(text)
    if not isinstance(value, dict):
        raise Unreadable(FileFindingKind.GARBLED, "a JSON object was expected")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Unreadable(FileFindingKind.GARBLED, "a name appears twice in one JSON object")
    return value


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:  # Python would take quadratic time for very long numbers
        raise Unreadable(FileFindingKind.OUT_OF_RANGE, "a number is too long")
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise Unreadable(FileFindingKind.GARBLED, f"{text} is not JSON")


_NUMBER = re.compile(r"-?[0-9]+")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


def parse_offsets(text: str) -> Offsets | None:
    """Return the offsets of a Kafka source, or None for another source. Raises Unreadable.

    Spark does not record the kind of a source, so only the form of the text shows the kind. The
    source is Kafka if a value of the JSON object is itself an object whose names are numbers: the
    partitions of a topic.
    """
    value = decode(text)
    if not isinstance(value, dict) or (value and not any(map(_has_numbers, value.values()))):
        return None
    return Offsets(
        {
            _partition(topic, number): _offset(offset)
            for topic, partitions in value.items()
            for number, offset in _partitions(partitions).items()
        }
    )


def _has_numbers(value: Any) -> bool:
    return isinstance(value, dict) and any(map(_NUMBER.fullmatch, value))


def _partitions(partitions: Any) -> Mapping[str, Any]:
    if not isinstance(partitions, dict):
        raise Unreadable(FileFindingKind.GARBLED, "a topic holds something other than partitions")
    return partitions


def _partition(topic: str, number: str) -> TopicPartition:
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise Unreadable(FileFindingKind.GARBLED, "it has an invalid topic name")
    if not _PARTITION.fullmatch(number) or int(number) > _MAX_PARTITION:
        raise Unreadable(FileFindingKind.GARBLED, f"{topic} has a partition that is not a number")
    return TopicPartition(topic, int(number))


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable(FileFindingKind.GARBLED, "an offset is not an integer")
    if not 0 <= value <= _MAX_OFFSET:
        raise Unreadable(FileFindingKind.OUT_OF_RANGE, f"{value}")
    return value


_VERSION = re.compile(r"v([1-9][0-9]{0,8})")


def check_version(line: str, *, newest: int, whole: bool) -> int:
    """Return the format version in `line`, the first line of a file. Raises Unreadable.

    `whole` is False if no second line follows. Then the file was truncated, and the function raises
    Unreadable.
    """
    match = _VERSION.fullmatch(line)
    if not whole and (match or line in {"", "v"}):
        raise Unreadable(FileFindingKind.CUT, "it ends within its first line")
    if match is None:
        raise Unreadable(FileFindingKind.GARBLED, "its first line does not name a version")
    version = int(match[1])
    if version > newest:
        raise Unreadable(FileFindingKind.TOO_NEW, f"v{version}; v1 to v{newest} are known")
    return version


NEWEST_COMMITS = 3


def check_commit(text: str) -> None:
    """Raise Unreadable unless `text` is a complete commit file."""
    first, line_feed, rest = text.partition("\n")
    check_version(first, newest=NEWEST_COMMITS, whole=bool(line_feed))
    if not rest:
        raise Unreadable(FileFindingKind.CUT, "it ends after its first line")
    decode_object(rest)


NEWEST_INITIAL_OFFSETS = 1
_MARK = b"\0"  # so that Spark before 2.1.0 fails on the file (SPARK-19517)


def parse_initial_offsets(content: bytes) -> Offsets | None:
    """Read `sources/<i>/0`; return None for a source that is not Kafka. Raises Unreadable."""
    if not content.startswith(_MARK):
        return None
    try:
        text = content[len(_MARK) :].decode()
    except UnicodeDecodeError:
        raise Unreadable(FileFindingKind.GARBLED, "it is not UTF-8") from None
    first, line_feed, rest = text.partition("\n")
    check_version(first, newest=NEWEST_INITIAL_OFFSETS, whole=bool(line_feed))
    if not rest.strip():
        raise Unreadable(FileFindingKind.CUT, "it ends after its first line")
    offsets = parse_offsets(rest)
    if offsets is None:
        raise Unreadable(FileFindingKind.GARBLED, "it holds no Kafka offsets")
    return offsets


NEWEST_OFFSETS = 2
_NOTHING = "-"
_WATERMARK = "batchWatermarkMs"
_TIMESTAMP = "batchTimestampMs"
_PLAN_ID = 32  # hexadecimal digits


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsets:
    """The line of one source in `offsets/<batch>`.

    `id` is the number of the line, or in version 2 the id in the line. `text` is the JSON of the
    offset, or None if the source has no offset yet. `offsets` is None for a source that is not
    Kafka.
    """

    id: str
    text: str | None
    offsets: Offsets | None

    @classmethod
    def parse(cls, source: str, text: str) -> SourceOffsets:
        """Read the offset of `source` from `text`, a part of the source's line.

        Raises Unreadable.
        """
        if text == _NOTHING:
            return cls(id=source, text=None, offsets=None)
        if not text:
            raise Unreadable(FileFindingKind.CUT, f"source {source} has an empty line")
        return cls(id=source, text=text, offsets=parse_offsets(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOffsets:
    """The end offsets of one batch, for every source of the query.

    The sources are in the order of the plan: a stream that the query uses twice may be listed
    twice, while a progress event names it once. `metadata` is the second line (watermark, time,
    settings), which is empty under continuous processing.
    """

    batch: int
    version: int
    metadata: str
    sources: tuple[SourceOffsets, ...]

    @property
    def continuous(self) -> bool:
        """True if continuous processing wrote the batch, which it calls an epoch."""
        return not self.metadata

    @property
    def planned_at(self) -> int | None:
        """The time when Spark planned the batch, in ms since 1970, or None if the file lacks it."""
        return self._number(_TIMESTAMP)

    @property
    def watermark(self) -> int | None:
        """The watermark of the batch, in ms since 1970, or None if the batch has no watermark."""
        return self._number(_WATERMARK) or None

    def _number(self, name: str) -> int | None:
        number = decode_object(self.metadata).get(name) if self.metadata else None
        return int(number) if number is not None else None

    def kafka(self) -> Mapping[str, Offsets]:
        """Return the offsets of the Kafka sources, by the id of the source."""
        return {source.id: source.offsets for source in self.sources if source.offsets is not None}

    def non_kafka(self) -> tuple[str, ...]:
        """Return the ids of the sources that are not Kafka and have an offset."""
        return tuple(
            source.id
            for source in self.sources
            if source.offsets is None and source.text is not None
        )

    @classmethod
    def parse(cls, batch: int, text: str) -> BatchOffsets:
        """Read the content of `offsets/<batch>`. Raises Unreadable."""
        # Spark writes no line feed at the end, but accepts one that an editor has added.
        first, *rest = text.removesuffix("\n").split("\n")
        version = check_version(first, newest=NEWEST_OFFSETS, whole=bool(rest))
        metadata, *lines = (line.removesuffix("\r") for line in rest)
        _check_metadata(metadata)
        if not lines:
            raise Unreadable(FileFindingKind.CUT, "it has no source")
        parts = enumerate(lines) if version == 1 else map(_split, lines)
        sources = tuple(SourceOffsets.parse(str(source), line) for source, line in parts)
        if len({source.id for source in sources}) < len(sources):
            raise Unreadable(FileFindingKind.GARBLED, "a source appears twice")
        return cls(batch=batch, version=version, metadata=metadata, sources=sources)


def plan_id(text: str) -> str:
    """Return a digest of `offsets/<batch>`; each plan of the same batch has a different digest.

    Spark writes the file once, when it plans the batch, with the time of planning in milliseconds.
    The digest uses nothing else from the file's second line. Raises Unreadable.
    """
    first, *rest = text.removesuffix("\n").split("\n")
    check_version(first, newest=NEWEST_OFFSETS, whole=bool(rest))
    metadata, *lines = rest
    planned_at = decode_object(metadata).get(_TIMESTAMP)
    if planned_at is None:
        raise Unreadable(
            FileFindingKind.GARBLED, "it lacks the time at which the batch was planned"
        )
    # In version 2 the sources have no fixed order.
    plan = "\n".join([str(planned_at), *sorted(line.removesuffix("\r") for line in lines)])
    return hashlib.sha256(plan.encode()).hexdigest()[:_PLAN_ID]


def _split(line: str) -> tuple[str, str]:
    source, colon, text = line.partition(":")
    if not colon or not source:
        raise Unreadable(FileFindingKind.CUT, "a line has no source id")
    return source, text


def _check_metadata(line: str) -> None:
    if not line:
        return
    metadata = decode_object(line)
    if not all(isinstance(metadata.get(name, 0), int) for name in (_WATERMARK, _TIMESTAMP)):
        raise Unreadable(FileFindingKind.GARBLED, "its watermark or time is not a number")
