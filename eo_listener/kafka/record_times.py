"""When the records were written at which groups stand, by reading one of each partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from eo_listener.kafka.client import ConnectionErrors
from eo_listener.kafka.logs import NOTHING_HELD, Logs
from eo_listener.kafka.range_reader import RangeReader
from eo_listener.model.offsets import OffsetRange, TopicPartition

_FIRST: Final = 1  # offsets read at first: nearly always that is a record
_MORE: Final = 1000  # and then, where it is a transaction's marker, or was compacted
_NO_TIME: Final = 0  # Kafka's TimestampType.NOT_AVAILABLE


def record_times(
    properties: Mapping[str, str], offsets: Mapping[TopicPartition, int], *, timeout: float
) -> dict[TopicPartition, int]:
    """The time of the first committed record from each offset on, in milliseconds since 1970.

    Where there is none, that of the last one before, of those up to 1,000 offsets before it. A
    partition without any, or that is gone, is left out. Raises KafkaError; each of a few steps
    takes `timeout` seconds at most.
    """
    errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
    reader = RangeReader(properties, "eo-listener-times", committed=True, errors=errors)
    logs = Logs(properties)
    with closing(reader), closing(logs):
        bounds = _bounds(logs, offsets, timeout)
        found: dict[TopicPartition, int] = {}
        for size in (_FIRST, _MORE):
            after = {
                tp: OffsetRange(begin, min(begin + size, end))
                for tp, (start, end) in bounds.items()
                if tp not in found and (begin := max(offsets[tp], start)) < end
            }
            for tp, written in _read(reader, after, timeout):
                found.setdefault(tp, written)
        before = {
            tp: OffsetRange(max(start, end - _MORE), end)
            for tp, (start, end) in bounds.items()
            if tp not in found and offsets[tp] >= end > start
        }
        found |= dict(_read(reader, before, timeout))  # of several the last
        return found


def _read(
    reader: RangeReader, ranges: Mapping[TopicPartition, OffsetRange], timeout: float
) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(one.topic(), one.partition()), one.timestamp()[1])
        for one in reader.messages(ranges, time.monotonic() + timeout, silence=timeout)
        if one.timestamp()[0] != _NO_TIME
    ]


def _bounds(
    logs: Logs, offsets: Mapping[TopicPartition, int], timeout: float
) -> dict[TopicPartition, tuple[int, int]]:
    """Where each log starts, and where its first open transaction begins, or it ends."""
    snapshot = logs.snapshot(NOTHING_HELD, offsets.keys(), time.monotonic() + timeout)
    starts = snapshot.whole().starts
    stable = logs.stable_ends(tuple(starts), time.monotonic() + timeout)
    return {tp: (start, stable[tp]) for tp, start in starts.items() if tp in stable}
