"""Reads from Kafka what the start of a query needs: partitions, groups, logs, points in time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from eo_listener.errors import SettingsError, few
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.kafka.logs import NO_OFFSETS, ClusterReader, Logs
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import TopicPartition

_TOPICS: Final = "subscribe"
_PATTERN: Final = "subscribepattern"
_ASSIGN: Final = "assign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics (by name, or by a pattern for the whole name) or partitions that a query reads."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: frozenset[TopicPartition] | None = None

    @classmethod
    def parse(
        cls, topics: str | Iterable[str] | None, options: Mapping[str, str]
    ) -> Subscription | None:
        """Return the subscription of `topics` or `options`, or None if neither names a topic.

        The keys of `options` are in lower case. Raises SettingsError for a subscription that names
        nothing, or both topics and partitions.
        """
        if _ASSIGN in options:
            if topics is not None:
                raise SettingsError(
                    "topics= names topics, but the reader's option assign names partitions",
                    fix="Leave one of them out",
                )
            return cls(assigned=_assigned(options[_ASSIGN]))
        if topics is None and _PATTERN in options:
            return cls(pattern=_pattern(options[_PATTERN]))
        if topics is None:
            topics = options.get(_TOPICS)
        if topics is None:
            return None
        names = topics.split(",") if isinstance(topics, str) else topics
        stripped = frozenset(name.strip() for name in names)
        if not stripped or "" in stripped:
            raise SettingsError(
                f"topics is {topics!r}, which names no topic", fix="Name at least one topic"
            )
        return cls(topics=stripped)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error:
        raise SettingsError(
            f"{_PATTERN} is {text!r}, which is not a Python regular expression",
            fix="Correct it, or name the topics in topics=",
        ) from None


def _assigned(text: str) -> frozenset[TopicPartition]:
    """Return the partitions of the option `assign` (JsonUtils.partitions): `{"topic":[0,1]}`."""
    try:
        topics = json.loads(text)
        assigned = frozenset(
            TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        assigned = frozenset()
    if not assigned or not all(type(tp.partition) is int and tp.partition >= 0 for tp in assigned):
        raise SettingsError(
            f"{_ASSIGN} is {text!r}, which names no partitions",
            fix='Write it as Spark reads it: {"topic": [0, 1]}',
        )
    return assigned


_TIMEOUT: Final = 30.0  # seconds for each request


class SourceCluster:
    """Reads one cluster, with librdkafka's properties. Each request may raise KafkaError."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._reader = ClusterReader(properties, timeout=_TIMEOUT)
        self._logs = Logs(properties)

    def partitions(self, subscription: Subscription | None) -> tuple[TopicPartition, ...]:
        """Return all partitions of a subscription; for None, of all topics except Kafka's own.

        Raises SettingsError for a topic or a partition that does not exist, and for a pattern
        that matches no topic.
        """
        if subscription is None:
            return self._reader.partitions(None)
        if subscription.pattern is not None:
            pattern = subscription.pattern
            every = self._reader.partitions(None)
            matching = tuple(tp for tp in every if pattern.fullmatch(tp.topic))
            if not matching:
                raise _lacking(f"topic that matches {pattern.pattern!r}", "subscribePattern")
            return matching
        if subscription.assigned is not None:
            existing = set(self._reader.partitions({tp.topic for tp in subscription.assigned}))
            absent = sorted(subscription.assigned - existing)
            if absent:
                raise _lacking(f"partition {few(absent)}", "assign")
            return tuple(sorted(subscription.assigned))
        topics = subscription.topics or frozenset()
        partitions = self._reader.partitions(topics)
        missing = sorted(topics - {tp.topic for tp in partitions})
        if missing:
            raise _lacking(f"topic {few(missing)}", "topics=")
        return partitions

    def group_origin(self, group: str, partitions: Collection[TopicPartition]) -> Origin:
        """Return the committed offsets of a group, read after pending transactions have ended."""
        positions = self._reader.group(group, partitions, stable=True)
        if not positions:
            raise SettingsError(
                f"group {group!r} holds no offsets for these topics",
                cause="its offsets expired, nobody has committed to it, or it is misspelled",
                fix="Run eo-listener status GROUP -b SERVERS to see what it holds",
            )
        offsets = {tp: position.offset for tp, position in positions.items()}
        return Origin(label=f"group {group!r}", offsets=offsets)

    def times_origin(self, label: str, timestamps: Mapping[TopicPartition, int]) -> Origin:
        """Return each partition's first offset since a time.

        If a partition has no record since then, return the end of its log. Times are in
        milliseconds since 1970.
        """
        deadline = time.monotonic() + _TIMEOUT
        ends = self._logs.ends(timestamps.keys(), deadline)
        first_records = self._logs.at(timestamps, deadline)
        return Origin(label=label, offsets={**ends, **first_records})

    def snapshot(self, partitions: Collection[TopicPartition]) -> GroupSnapshot:
        """Return the start and end of the logs of these partitions."""
        return self._logs.snapshot(NO_OFFSETS, partitions, time.monotonic() + _TIMEOUT).whole()

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
        self._logs.close()


def _lacking(missing: str, named_by: str) -> SettingsError:
    return SettingsError(
        f"Kafka has no {missing}",
        cause="it was deleted or misspelled, this user lacks the right to Describe it, or this "
        "is another cluster",
        fix=f"Check {named_by} and the bootstrap servers",
    )
