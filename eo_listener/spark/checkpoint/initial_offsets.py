"""The file `sources/<source>/0`: where the query began to read.

Source: Spark's KafkaSourceInitialOffsetWriter.
"""

from __future__ import annotations

from eo_listener.model.offsets import Offsets
from eo_listener.spark.checkpoint import kafka_offsets
from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable
from eo_listener.spark.checkpoint.versions import check_version

NEWEST = 1
_MARK = b"\0"  # so that a Spark before 2.1.0 fails on it (SPARK-19517)


def content(offsets: Offsets) -> bytes:
    """Write it as Spark does."""
    return _MARK + f"v{NEWEST}\n{kafka_offsets.text(offsets)}".encode()


def parse(held: bytes) -> Offsets | None:
    """Read it; None for a source that is not Kafka. Raises Unreadable."""
    if not held.startswith(_MARK):
        return None
    try:
        text = held[len(_MARK) :].decode()
    except UnicodeDecodeError:
        raise Unreadable(FileFindingKind.GARBLED, "it is no UTF-8") from None
    first, line_feed, rest = text.partition("\n")
    check_version(first, newest=NEWEST, whole=bool(line_feed))
    if not rest.strip():
        raise Unreadable(FileFindingKind.CUT, "it ends after its first line")
    found = kafka_offsets.parse(rest)
    if found is None:
        raise Unreadable(FileFindingKind.GARBLED, "it holds no offsets of Kafka")
    return found
