"""Read where groups and logs stand; changes nothing."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.client_config.validation import require_name
from eo_listener.kafka.client import OUTSIDER, STABLE, Client, Role, answer_of
from eo_listener.kafka.logs import STALE, Logs, group_offsets
from eo_listener.model.errors import KafkaError
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.model.offsets import Position, TopicPartition

_PAUSE = 0.2
_AT_ONCE = 1000  # see `Logs`


class ClusterReader:
    """Group offsets and log ends of one cluster. Every call raises KafkaError on failure.

    `timeout` bounds each reading, in seconds; a coordinator that is being made, or moves, is waited
    for as long. Not to be used by two threads at once.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float = 10.0) -> None:
        self._properties = dict(properties)
        self._servers = properties.get("bootstrap.servers", "HOST:PORT")
        self._logs = Logs(properties)
        self._timeout = timeout
        self._stable: Client | None = None

    def group(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = False,
    ) -> Mapping[TopicPartition, Position]:
        """The offsets that a group holds, with their metadata; empty for an unknown group.

        Reads all partitions of the cluster when none are named. Offsets committed in a
        transaction count from its end on, which comes a little after its producer was answered:
        `stable` waits for that end (KIP-447).
        """
        require_name("group", group)
        asked = tuple(self.partitions() if partitions is None else partitions)
        if not stable:
            return self._held(group, asked, OUTSIDER)
        try:
            return self._held(group, asked, STABLE)
        except KafkaError as error:
            if error.code != "_TIMED_OUT":
                raise
            self._held(group, asked, OUTSIDER)  # raises when it is not for a transaction
            raise KafkaError(
                f"group {group} cannot be read for certain: for {self._timeout:g} s a transaction "
                "that commits to it has been open",
                code="UNSTABLE_OFFSET_COMMIT",
                cause="its producer died, or is at work",
                fix="Try again when its transaction.timeout.ms is over (60 s by default); whose it "
                f"is: eo-listener txn list -b {self._servers} --group {shlex.quote(group)}",
            ) from error

    def partitions(self, topics: Iterable[str] | None = None) -> tuple[TopicPartition, ...]:
        """All partitions of these topics, or of all but Kafka's own; none of an unknown topic."""
        return self._logs.partitions(topics, self._deadline())

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offset that each log will write; a partition that is gone is left out."""
        return self._logs.ends(tuple(partitions), self._deadline())

    def stable_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Where the first open transaction of each log begins, or its end; those of logs that are.

        A consumer under read_committed gets no further (Kafka's last stable offset).
        """
        if self._stable is None:
            self._stable = Client(self._properties, "eo-listener-reader", role=STABLE)
        client, deadline = self._stable, self._deadline()
        asked = [Wire(tp.topic, tp.partition, OFFSET_END) for tp in partitions]
        found: dict[TopicPartition, int] = {}
        for first in range(0, len(asked), _AT_ONCE):
            some = asked[first : first + _AT_ONCE]
            left = max(0.1, deadline - time.monotonic())
            try:
                parts = client.consumer.offsets_for_times(some, timeout=left)
            except KafkaException as error:
                raise client.failure("reading where logs are stable", answer_of(error)) from error
            for part in parts:
                if part.error is None:
                    found[TopicPartition(part.topic, part.partition)] = part.offset
                elif part.error.name() not in STALE:
                    raise client.failure(f"reading {part.topic}-{part.partition}", part.error)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        if self._stable is not None:
            self._stable.close()
            self._stable = None

    def _held(
        self, group: str, asked: Iterable[TopicPartition], role: Role
    ) -> Mapping[TopicPartition, Position]:
        asked, deadline = tuple(asked), self._deadline()
        client = Client(self._properties, group, role=role)
        try:
            while True:
                try:
                    return group_offsets(client, group, asked, deadline).whole()
                except KafkaError as error:
                    late = time.monotonic() + _PAUSE >= deadline
                    if error.code not in COORDINATOR_MOVES or late:
                        raise
                time.sleep(_PAUSE)
        finally:
            client.close()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout
