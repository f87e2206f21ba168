"""Kafka's record batches (message format 2), as they lie in a log segment and go over the wire."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.attack.messages import Source

_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12  # batchLength counts what follows the first two fields
_COMPRESSION, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `commits` is set for a marker that ends a transaction (False: by an abort)."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    producer_id: int  # -1 for a plain producer
    transactional: bool
    commits: bool | None


def records(data: bytes) -> Iterator[Record]:
    """Every record of whole, uncompressed batches; a batch that is still being written ends it."""
    at = 0
    while at + _HEAD.size <= len(data):
        head = _HEAD.unpack_from(data, at)
        end = at + _LENGTH_FROM + head[1]
        if head[1] <= 0 or end > len(data):
            return
        if head[3] != 2 or head[5] & _COMPRESSION:
            raise ValueError(f"message format {head[3]}, attributes {head[5]:#x}")
        yield from _inside(head, Source(data[at + _HEAD.size : end]))
        at = end


def _inside(head: tuple[int, ...], source: Source) -> Iterator[Record]:
    attributes, first_timestamp, producer_id, count = head[5], head[7], head[9], head[12]
    for _ in range(count):
        source.signed()  # its length
        source.take(1)
        timestamp = first_timestamp + source.signed()
        offset = head[0] + source.signed()
        key, value = _data(source), _data(source)
        for _ in range(source.signed()):
            source.take(source.signed())
            _data(source)
        control = bool(attributes & _CONTROL)
        yield Record(
            offset=offset,
            key=key,
            value=value,
            timestamp=timestamp,
            producer_id=producer_id,
            transactional=bool(attributes & _TRANSACTIONAL),
            commits=struct.unpack_from(">hh", key)[1] == 1 if control and key else None,
        )


def _data(source: Source) -> bytes | None:
    length = source.signed()
    return None if length < 0 else source.take(length)
