"""Commit to and read consumer groups through the group coordinator (KIP-396)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as Unanswered  # its own class until Python 3.11

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.errors import KafkaError
from eo_listener.kafka.clients import Client
from eo_listener.offsets import Position, TopicPartition

_GRACE = 1.0  # seconds that the future may take longer than the request it stands for


class ConfluentGroups:
    """The consumer groups of one cluster: the `GroupStore` of the simple commit mode.

    Commits as an outsider, without joining: Kafka refuses it while the group has members.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client = Client(properties)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and say of each partition None or Kafka's error name. Raises KafkaError."""
        wire = [
            Wire(tp.topic, tp.partition, position.offset, position.metadata)
            for tp, position in positions.items()
        ]
        request = ConsumerGroupTopicPartitions(group, wire)
        try:
            futures = self._client.admin.alter_consumer_group_offsets(
                [request], request_timeout=timeout
            )
            answer = futures[group].result(timeout=timeout + _GRACE)
        except KafkaException as error:
            raise self._client.failure(f"committing to group {group}", error) from error
        except Unanswered as error:
            raise KafkaError(
                f"committing to group {group} at {self._client.servers} was not answered",
                code="_TIMED_OUT",
                cause=self._client.complaint(),
            ) from error
        return {
            TopicPartition(part.topic, part.partition): part.error.name() if part.error else None
            for part in answer.topic_partitions
        }

    def tend(self) -> None:
        """Serve the client's callbacks, which pile up otherwise."""
        self._client.admin.poll(0)

    def close(self) -> None:
        """Let the client go; librdkafka closes its connections when the object is freed."""
        del self._client
