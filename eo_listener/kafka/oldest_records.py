"""When the first record from an offset on was written, of many partitions at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import TopicPartition as Wire

from eo_listener.kafka.client import ConnectionErrors, open_reader
from eo_listener.model.offsets import TopicPartition

_AT_ONCE: Final = 500
_POLL: Final = 0.05  # seconds
_SMALL: Final = {
    # A broker sends one batch of records of a partition all the same, and not a megabyte of them.
    "fetch.message.max.bytes": "1",
    "queued.min.messages": "1",
    "fetch.wait.max.ms": "10",
    "fetch.error.backoff.ms": "20",
    # A second, else, before a partition is fetched whose broker has sent another one's alone.
    "fetch.queue.backoff.ms": "10",
}


def oldest_records(
    properties: Mapping[str, str],
    offsets: Mapping[TopicPartition, int],
    *,
    committed: bool,
    seconds: float,
) -> dict[TopicPartition, int]:
    """The time of the first record from each offset on, in milliseconds since 1970.

    Left out are partitions that have none there (markers of transactions are no records), none with
    a time, and those that were not answered within `seconds`: old records of many partitions may
    take long, and a part of the answer is worth more than none. With `committed` only records of
    committed transactions count. Raises SettingsError for properties that cannot be used.
    """
    if not offsets:
        return {}
    errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
    consumer = open_reader(
        {**properties, **_SMALL},
        "eo-listener-oldest",
        committed=committed,
        error_cb=errors.record,
    )
    deadline = time.monotonic() + seconds
    left = set(offsets)
    found: dict[TopicPartition, int] = {}
    try:
        consumer.assign([Wire(tp.topic, tp.partition, at) for tp, at in offsets.items()])
        while left and time.monotonic() < deadline:
            done = set()
            for message in consumer.consume(_AT_ONCE, timeout=_POLL):
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                if tp in left and _is_answer(message):
                    done.add(tp)
                    left.discard(tp)
                    if (written := _time(message)) is not None:
                        found[tp] = written
            if done:
                consumer.pause([Wire(*tp) for tp in done])
    finally:
        consumer.close()
    return found


def _is_answer(message: Any) -> bool:
    """A record, or the end of the partition, or an error that is of the partition itself."""
    error = message.error()
    return error is None or error.name() in {"_PARTITION_EOF", "_AUTO_OFFSET_RESET"}


def _time(message: Any) -> int | None:
    if message.error() is not None:
        return None
    kind, written = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else int(written)
