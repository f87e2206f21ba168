"""Read where groups and logs stand; changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eo_listener.kafka import readings
from eo_listener.kafka.clients import Client, answer_of, open_admin
from eo_listener.offsets import Position, TopicPartition


class ClusterReader:
    """Group offsets and log ends of one cluster. Every call raises KafkaError on failure.

    `timeout` bounds each reading, in seconds. Not to be used by two threads at once.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float = 10.0) -> None:
        self._properties = dict(properties)
        self._client = Client(properties, "eo-listener-reader")
        self._admin: AdminClient | None = None
        self._timeout = timeout

    def group(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, Position]:
        """The offsets that a group holds, with their metadata; empty for an unknown group.

        Looks at all partitions of the cluster when none are named.
        """
        client = Client(self._properties, group)
        asked = self.partitions() if partitions is None else partitions
        try:
            return readings.group_offsets(client, group, asked, self._deadline())
        finally:
            client.consumer.close()

    def partitions(self, topics: Iterable[str] | None = None) -> tuple[TopicPartition, ...]:
        """All partitions of these topics, or of all but Kafka's own; none of an unknown topic."""
        try:
            metadata = self._client.consumer.list_topics(timeout=self._timeout)
        except KafkaException as error:
            raise self._client.failure("listing topics", answer_of(error)) from error
        wanted = None if topics is None else frozenset(topics)
        return tuple(
            sorted(
                TopicPartition(name, partition)
                for name, topic in metadata.topics.items()
                if (name in wanted if wanted is not None else not name.startswith("__"))
                for partition in topic.partitions
            )
        )

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offset that each log will write; a partition that is gone is left out."""
        deadline = self._deadline()
        asked = tuple(partitions)
        if self._admin is None:
            self._admin = open_admin(self._properties)
        found = readings.topics(self._client, self._admin, {tp.topic for tp in asked}, deadline)
        return readings.log_ends(self._client, readings.existing(asked, found), deadline)

    def close(self) -> None:
        """Close the connections."""
        self._client.consumer.close()
        self._admin = None

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout
