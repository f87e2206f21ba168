"""A file of `offsets/`: how far a batch is to read, one line a source.

Sources: Spark's OffsetSeqLog and OffsetSeqMetadata (3.5 to 4.2), OffsetMap (4.2, opt-in by
`spark.sql.streaming.offsetLog.formatVersion=2`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.model.offsets import Offsets
from eo_listener.spark.checkpoint import kafka_offsets
from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable
from eo_listener.spark.checkpoint.json_text import decode_object
from eo_listener.spark.checkpoint.versions import check_version

NEWEST = 2
_NOTHING = "-"
_WATERMARK = "batchWatermarkMs"
_TIMESTAMP = "batchTimestampMs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsets:
    """One source's line.

    `id` is its number among the lines, or in version 2 the id written there. `text` is its JSON,
    None while it has no offset yet. `offsets` is None for a source that is not Kafka.
    """

    id: str
    text: str | None
    offsets: Offsets | None

    @classmethod
    def parse(cls, source: str, text: str) -> SourceOffsets:
        """Read the part of a line that holds the offset. Raises Unreadable."""
        if text == _NOTHING:
            return cls(id=source, text=None, offsets=None)
        if not text:
            raise Unreadable(FileFindingKind.CUT, f"source {source} has an empty line")
        return cls(id=source, text=text, offsets=kafka_offsets.parse(text))

    @classmethod
    def of(cls, source: str, offsets: Offsets) -> SourceOffsets:
        """Build from offsets, in Spark's spelling."""
        return cls(id=source, text=kafka_offsets.text(offsets), offsets=offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOffsets:
    """The end offsets of one batch, of every source of the query.

    The lines follow the sources as the plan names them: a stream used twice may stand there
    twice, while a progress event names it once. `metadata` is the second line (watermark, time,
    settings), empty under continuous processing, which writes none.
    """

    batch: int
    version: int
    metadata: str
    sources: tuple[SourceOffsets, ...]

    @property
    def continuous(self) -> bool:
        """Whether continuous processing wrote it: then the batch is an epoch."""
        return not self.metadata

    @property
    def timestamp_ms(self) -> int | None:
        """When the batch was planned, in milliseconds of the epoch; None where it is not said."""
        value = json.loads(self.metadata or "{}").get(_TIMESTAMP)
        return value if isinstance(value, int) else None

    def kafka(self) -> Mapping[str, Offsets]:
        """The offsets of the Kafka sources, by the id of the source."""
        return {source.id: source.offsets for source in self.sources if source.offsets is not None}

    def text(self) -> str:
        """Write it as Spark does."""
        lines = [f"v{self.version}", self.metadata]
        for source in self.sources:
            held = _NOTHING if source.text is None else source.text
            lines.append(f"{source.id}:{held}" if self.version == NEWEST else held)
        return "\n".join(lines)

    @classmethod
    def parse(cls, batch: int, text: str) -> BatchOffsets:
        """Read the content of `offsets/<batch>`. Raises Unreadable."""
        # Spark writes no last line feed, but reads on when an editor has added one.
        first, *rest = text.removesuffix("\n").split("\n")
        version = check_version(first, newest=NEWEST, whole=bool(rest))
        metadata, *lines = (line.removesuffix("\r") for line in rest)
        _check_metadata(metadata)
        if not lines:
            raise Unreadable(FileFindingKind.CUT, "it has no source")
        parts = enumerate(lines) if version == 1 else map(_split, lines)
        sources = tuple(SourceOffsets.parse(str(source), held) for source, held in parts)
        if len({source.id for source in sources}) < len(sources):
            raise Unreadable(FileFindingKind.GARBLED, "a source stands there twice")
        return cls(batch=batch, version=version, metadata=metadata, sources=sources)


def _split(line: str) -> tuple[str, str]:
    source, colon, held = line.partition(":")
    if not colon or not source:
        raise Unreadable(FileFindingKind.CUT, "a line has no source id")
    return source, held


def _check_metadata(line: str) -> None:
    if not line:
        return
    found = decode_object(line)
    if not all(isinstance(found.get(name, 0), int) for name in (_WATERMARK, _TIMESTAMP)):
        raise Unreadable(FileFindingKind.GARBLED, "its watermark or its time is no number")
