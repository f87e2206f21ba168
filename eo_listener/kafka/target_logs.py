"""The logs that a sink without transactions writes to, as it reads them itself.

They are read uncommitted: what this sink sends belongs to no transaction, and those of others that
stay open would hide it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient

from eo_listener.kafka.client import (
    TIMED_OUT,
    ConnectionErrors,
    answer_of,
    cleanup_policy,
    open_admin,
    open_reader,
)
from eo_listener.kafka.logs import NOTHING_HELD, Logs
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.model.offsets import OffsetRange, TopicPartition

_AT_ONCE: Final = 1000
_POLL: Final = 0.2  # seconds
_END: Final = "_PARTITION_EOF"
_QUICK: Final = {"fetch.wait.max.ms": "10", "fetch.error.backoff.ms": "20"}
# librdkafka asks for the coordinator of a group that its consumer never joins.
_OF_GROUPS: Final = frozenset({"GROUP_AUTHORIZATION_FAILED", *COORDINATOR_MOVES})

Headers = Sequence[tuple[str, "str | bytes | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLog:
    """A topic that exists: its id, None where it has none, and the logs of its partitions.

    A range is from the first record that Kafka still has to the end of the log.
    """

    id: str | None
    ranges: Mapping[int, OffsetRange]


class StoredRecord(NamedTuple):
    """Where a record lies, and its headers."""

    partition: TopicPartition
    offset: int
    headers: Headers


class TargetLogs:
    """Reads them, by a consumer that joins no group. For one thread.

    `timeout` bounds each question, and each silence while records are read, in seconds. All
    questions raise KafkaError.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float) -> None:
        self._properties = dict(properties)
        self._timeout = timeout
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._logs = Logs(properties)
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None

    def topics(self, names: Collection[str]) -> Mapping[str, TargetLog]:
        """Those of the topics that exist."""
        deadline = time.monotonic() + self._timeout
        there = self._logs.topics(names, deadline)
        wanted = {
            TopicPartition(name, number)
            for name, topic in there.items()
            for number in topic.partitions
        }
        snapshot = self._logs.snapshot(NOTHING_HELD, wanted, deadline).whole()
        found: dict[str, dict[int, OffsetRange]] = {name: {} for name in there}
        for tp, end in sorted(snapshot.ends.items()):
            found[tp.topic][tp.partition] = OffsetRange(snapshot.starts[tp], end)
        ids = snapshot.topic_ids
        return {
            name: TargetLog(id=ids.get(name), ranges=ranges)
            for name, ranges in found.items()
            if ranges
        }

    def policy(self, topic: str) -> str:
        """The `cleanup.policy` of a topic."""
        if self._admin is None:
            self._admin = open_admin(self._properties)
        what = f"reading the settings of topic {topic}"
        try:
            return cleanup_policy(self._admin, topic, self._timeout)
        except KafkaException as error:
            raise self._errors.failure(what, answer_of(error)) from error
        except Late as error:
            raise self._errors.failure(what, Answer(TIMED_OUT)) from error

    def records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterator[StoredRecord]:
        """The records in these ranges, which are not empty."""
        consumer = self._opened()
        left = {tp: one.until for tp, one in ranges.items()}
        starts = {tp: one.start or OFFSET_BEGINNING for tp, one in ranges.items()}
        consumer.assign([Wire(*tp, start) for tp, start in starts.items()])
        deadline = time.monotonic() + self._timeout
        try:
            while left:
                messages = consumer.consume(_AT_ONCE, timeout=_POLL)
                if messages:
                    deadline = time.monotonic() + self._timeout
                elif time.monotonic() >= deadline:
                    raise self._errors.failure(f"reading {min(left)}", Answer(TIMED_OUT))
                for message in messages:
                    yield from self._taken(message, left)
        finally:
            consumer.unassign()

    def close(self) -> None:
        """Let go of the connections."""
        self._logs.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _taken(self, message: Any, left: dict[TopicPartition, int]) -> Iterator[StoredRecord]:
        tp = TopicPartition(message.topic() or "", message.partition() or 0)
        error, offset = message.error(), message.offset()
        if error is not None and error.name() != _END:
            if tp in left and error.name() not in _OF_GROUPS:
                raise self._errors.failure(f"reading {tp}", error)
            self._note(error)  # of a connection: librdkafka goes on
            return
        if tp not in left or offset is None:
            return
        if error is None and offset < left[tp]:
            yield StoredRecord(tp, offset, message.headers() or ())
        if offset + (error is None) >= left[tp]:
            del left[tp]

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = open_reader(
                {**self._properties, **_QUICK},
                "eo-listener-target",
                committed=False,
                error_cb=self._note,
            )
        return self._consumer

    def _note(self, error: Answer) -> None:
        """Remember an error of a connection; not of a group, of which nothing is asked."""
        if error.name() not in _OF_GROUPS:
            self._errors.record(error)
