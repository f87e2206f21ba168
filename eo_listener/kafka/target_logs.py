"""The logs that a sink without transactions writes to, as it reads them itself.

They are read uncommitted: what this sink sends belongs to no transaction, and those of others that
stay open would hide it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eo_listener.kafka.client import ConnectionErrors, cleanup_policy, open_admin
from eo_listener.kafka.logs import NO_OFFSETS, Logs
from eo_listener.kafka.range_reader import RangeReader
from eo_listener.offsets import OffsetRange, TopicPartition

Headers = Sequence[tuple[str, "str | bytes | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLog:
    """An existing topic: its id, None if it has none, and the logs of its partitions.

    A range is from the first record that Kafka still has to the end of the log.
    """

    id: str | None
    ranges: Mapping[int, OffsetRange]


class StoredRecord(NamedTuple):
    """The place of a record, and its headers."""

    partition: TopicPartition
    offset: int
    headers: Headers


class TargetLogs:
    """Reads these logs, by a consumer that joins no group. For one thread.

    `timeout` bounds each question, in seconds, and while records are read each silence of what is
    still to be read. All questions raise KafkaError.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float) -> None:
        self._properties = dict(properties)
        self._timeout = timeout
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._logs = Logs(properties)
        self._reader: RangeReader | None = None

    def topics(self, names: Collection[str]) -> Mapping[str, TargetLog]:
        """The topics that exist."""
        deadline = time.monotonic() + self._timeout
        topics = self._logs.topics(names, deadline)
        partitions = {
            TopicPartition(name, number)
            for name, topic in topics.items()
            for number in topic.partitions
        }
        snapshot = self._logs.snapshot(NO_OFFSETS, partitions, deadline).whole()
        logs: dict[str, dict[int, OffsetRange]] = {name: {} for name in topics}
        for tp, end in sorted(snapshot.ends.items()):
            logs[tp.topic][tp.partition] = OffsetRange(snapshot.starts[tp], end)
        ids = snapshot.topic_ids
        return {
            name: TargetLog(id=ids.get(name), ranges=ranges)
            for name, ranges in logs.items()
            if ranges
        }

    def policy(self, topic: str) -> str:
        """The `cleanup.policy` of a topic."""
        return cleanup_policy(open_admin(self._properties), topic, self._timeout, self._errors)

    def records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterator[StoredRecord]:
        """The records in these ranges."""
        deadline = time.monotonic() + self._timeout
        for message in self._open().messages(ranges, deadline, silence=self._timeout):
            tp = TopicPartition(message.topic(), message.partition())
            yield StoredRecord(tp, message.offset(), message.headers() or ())

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> RangeReader:
        if self._reader is None:
            self._reader = RangeReader(
                self._properties, "eo-listener-target", committed=False, errors=self._errors
            )
        return self._reader
