"""Reads, for a proof of the audit, which offsets have a record that consumers see.

The reader stores no records. Only commands use it, not drivers, because it reads topic settings
through the AdminClient, and fetches records.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire

from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.intervals import Intervals, of_offsets, union
from eo_listener.errors import KafkaError
from eo_listener.kafka.client import (
    TIMED_OUT,
    ConnectionErrors,
    cleanup_policy,
    open_admin,
    open_reader,
)
from eo_listener.kafka.logs import NO_OFFSETS, Logs
from eo_listener.offsets import OffsetRange, TopicPartition

_AT_ONCE: Final = 1000
_NEAR: Final = 10_000  # two ranges with at most this many offsets between them are read as one
_END: Final = "_PARTITION_EOF"


class RecordReader:
    """The `LogReader` that uses librdkafka. Two threads must not use it at once.

    `timeout` limits each request, and each wait for the next record, in seconds. `transactional` is
    True if any producer of the topics is transactional, None if that is unknown. Raises
    SettingsError for properties that librdkafka does not accept.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        transactional: bool | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._properties = dict(properties)
        self._transactional = transactional
        self._timeout = timeout
        self._logs = Logs(properties)
        self._admin = open_admin(self._properties)
        self._connection_errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._consumers: dict[bool, Consumer] = {}

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        """Return the logs' starts and ends, and whether they are compacted. Raises KafkaError."""
        deadline = time.monotonic() + self._timeout
        snapshot = self._logs.snapshot(NO_OFFSETS, partitions, deadline).whole()
        compacted = {
            topic: self._is_compacted(topic) for topic in sorted({t for t, _ in snapshot.ends})
        }
        deadline = time.monotonic() + self._timeout
        stable = self._logs.stable_ends(tuple(snapshot.ends), deadline)
        return {
            tp: LogFacts(
                start=snapshot.starts[tp],
                stable=min(stable[tp], end),
                end=end,
                topic_id=snapshot.topic_ids.get(tp.topic),
                compacted=compacted[tp.topic],
                transactional=self._transactional,
            )
            for tp, end in snapshot.ends.items()
            if tp in stable
        }

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        """Return the offsets of records in `ranges`, and perhaps of records between the ranges."""
        consumer = self._consumer(committed=committed)
        offsets: list[OffsetRange] = []
        for part in _merge(ranges):
            offsets.extend(of_offsets(self._offsets(consumer, partition, part)))
        return union(offsets)

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _offsets(self, consumer: Consumer, tp: TopicPartition, part: OffsetRange) -> Iterator[int]:
        consumer.assign([Wire(tp.topic, tp.partition, part.start)])
        deadline = time.monotonic() + self._timeout
        while True:
            messages = consumer.consume(_AT_ONCE, timeout=0.5)
            if messages:
                deadline = time.monotonic() + self._timeout
            elif time.monotonic() >= deadline:
                raise self._connection_errors.failure(f"reading {tp}", Answer(TIMED_OUT))
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None and error.name() == _END:
                    return
                if error is not None:
                    raise self._connection_errors.failure(f"reading {tp}", error)
                if offset is None or offset >= part.until:
                    return
                yield offset

    def _is_compacted(self, topic: str) -> bool | None:
        """Return True if compaction may delete records, None if the policy cannot be read."""
        try:
            errors = self._connection_errors
            return "compact" in cleanup_policy(self._admin, topic, self._timeout, errors)
        except (KafkaError, KeyError):  # a missing right: the kind of the proof shows it
            return None

    def _consumer(self, *, committed: bool) -> Consumer:
        consumer = self._consumers.get(committed)
        if consumer is None:
            record = self._connection_errors.record
            consumer = self._consumers[committed] = open_reader(
                self._properties, "eo-listener-proof", committed=committed, error_cb=record
            )
        return consumer


def _merge(ranges: Intervals) -> Iterator[OffsetRange]:
    """Yield the ranges to read; join ranges that are close together."""
    merged: OffsetRange | None = None
    for part in ranges:
        if merged is not None and part.start - merged.until <= _NEAR:
            merged = OffsetRange(merged.start, part.until)
            continue
        if merged is not None:
            yield merged
        merged = part
    if merged is not None:
        yield merged
