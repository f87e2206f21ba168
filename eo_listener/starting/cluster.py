"""What Kafka is asked for a start: the partitions there are, groups, logs, points in time."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from eo_listener.clusters import librdkafka_properties
from eo_listener.errors import SettingsError
from eo_listener.jvm.hands import JvmHands
from eo_listener.kafka import ClusterReader
from eo_listener.kafka.logs import Logs
from eo_listener.offsets import TopicPartition
from eo_listener.protocols import Look
from eo_listener.source_logs import SourceLogs
from eo_listener.starting.choice import Origin

_TIMEOUT: Final = 30.0  # seconds for each question


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The topics that a query reads: by their names, or all that match a pattern as a whole."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None


class SourceCluster:
    """The cluster that a reader with these options reads. Every question may raise KafkaError.

    Raises SettingsError for options that lead to no cluster, or to one that only Spark's own
    client can reach.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        hands = JvmHands()
        cluster = SourceLogs(hands).cluster(options)
        if cluster.road == "java":
            raise SettingsError(
                f"the partitions at {cluster} cannot be listed from Python",
                cause=cluster.why_java,
                fix="Run it where librdkafka gets in (SCRAM, PLAIN, mutual TLS, ...)",
            )
        properties = librdkafka_properties(cluster, hands)
        self._reader = ClusterReader(properties, timeout=_TIMEOUT)
        self._logs = Logs(properties)

    def partitions(self, wanted: Wanted | None) -> tuple[TopicPartition, ...]:
        """All partitions of the topics wanted; without that all there are, but Kafka's own.

        Raises SettingsError for a topic that does not exist.
        """
        topics = None if wanted is None else wanted.topics
        found = self._reader.partitions(topics)
        if wanted is not None and wanted.pattern is not None:
            pattern = wanted.pattern
            return tuple(tp for tp in found if pattern.fullmatch(tp.topic))
        missing = sorted((topics or frozenset()) - {tp.topic for tp in found})
        if missing:
            raise SettingsError(
                f"Kafka has no topic {', '.join(missing)}",
                cause="it was deleted, is misspelt, or this is another cluster",
                fix="Check topics= and the bootstrap servers",
            )
        return found

    def of_group(self, group: str, partitions: Collection[TopicPartition]) -> Origin:
        """Where a group stands on these partitions."""
        held = self._reader.group(group, partitions)
        if not held:
            raise SettingsError(
                f"group {group!r} holds no offsets for these topics",
                cause="its offsets expired, nobody has committed to it, or it is misspelt",
                fix="`eo-listener status GROUP -b SERVERS` shows what it holds",
            )
        offsets = {tp: position.offset for tp, position in held.items()}
        return Origin(what=f"group {group!r}", offsets=offsets)

    def of_time(self, timestamp_ms: int, partitions: Collection[TopicPartition]) -> Origin:
        """The first record of that time or later; where there is none, the end of the log."""
        deadline = time.monotonic() + _TIMEOUT
        ends = self._logs.ends(partitions, deadline)
        found = self._logs.at(timestamp_ms, partitions, deadline)
        return Origin(what=f"the time {timestamp_ms} ms", offsets={**ends, **found})

    def look(self, partitions: Collection[TopicPartition]) -> Look:
        """Where the logs of these partitions stand."""
        return self._logs.look({}, partitions, time.monotonic() + _TIMEOUT)

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()
        self._logs.close()
