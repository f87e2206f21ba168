"""What Spark and Hadoop write into a checkpoint, which the product only reads."""

from __future__ import annotations

import struct
import zlib

from eo_listener.model.offsets_json import write_offsets
from eo_listener.offsets import Offsets
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets


def source_offsets(source: str, offsets: Offsets) -> SourceOffsets:
    """The line of a Kafka source."""
    return SourceOffsets(id=source, text=write_offsets(offsets), offsets=offsets)


def batch_offsets(batch: BatchOffsets) -> str:
    """The content of `offsets/<batch>`, in either version."""
    lines = [f"v{batch.version}", batch.metadata]
    for source in batch.sources:
        held = "-" if source.text is None else source.text
        lines.append(f"{source.id}:{held}" if batch.version == 2 else held)
    return "\n".join(lines)


def initial_offsets(offsets: Offsets) -> bytes:
    """The content of `sources/<i>/0` of a Kafka source."""
    return f"\0v1\n{write_offsets(offsets)}".encode()


def checksum(held: bytes) -> bytes:
    """The content of the `.crc` file beside one that holds `held`."""
    chunks = (held[start : start + 512] for start in range(0, len(held), 512))
    sums = b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return b"crc\0" + struct.pack(">I", 512) + sums
