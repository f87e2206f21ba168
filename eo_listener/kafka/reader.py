"""Read where groups and logs stand; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from confluent_kafka import OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.kafka.clients import Client, answer_of
from eo_listener.offsets import Position, TopicPartition

_AT_ONCE = 5000  # partitions in one request
_GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


class ClusterReader:
    """Group offsets and log ends of one cluster. Every call raises KafkaError on failure.

    `timeout` bounds each request, in seconds. Not to be used by two threads at once.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float = 10.0) -> None:
        self._properties = dict(properties)
        self._client = Client(properties, "eo-listener-reader")
        self._timeout = timeout

    def group(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, Position]:
        """The offsets that a group holds, with their metadata; empty for an unknown group.

        Looks at all partitions of the cluster when none are named.
        """
        client = Client(self._properties, group)
        asked = self.partitions() if partitions is None else partitions
        positions = {}
        try:
            for part in self._ask(
                f"reading group {group}", client, client.consumer.committed, _wire(asked)
            ):
                if part.error is not None:
                    raise client.failure(f"reading group {group}", part.error)
                if part.offset >= 0:
                    metadata = (part.metadata or "").rstrip("\0")
                    tp = TopicPartition(part.topic, part.partition)
                    positions[tp] = Position(offset=part.offset, metadata=metadata)
        finally:
            client.consumer.close()
        return positions

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
        asked = (Wire(tp.topic, tp.partition, OFFSET_END) for tp in partitions)
        ends = {}
        for part in self._ask(
            "reading log ends", self._client, self._client.consumer.offsets_for_times, asked
        ):
            if part.error is None:
                ends[TopicPartition(part.topic, part.partition)] = part.offset
            elif part.error.name() not in _GONE:
                what = f"reading the end of {part.topic}-{part.partition}"
                raise self._client.failure(what, part.error)
        return ends

    def close(self) -> None:
        """Close the connections."""
        self._client.consumer.close()

    def _ask(
        self,
        what: str,
        client: Client,
        request: Callable[..., list[Wire]],
        asked: Iterable[Wire],
    ) -> Iterator[Wire]:
        parts = iter(asked)
        while chunk := list(islice(parts, _AT_ONCE)):
            try:
                yield from request(chunk, timeout=self._timeout)
            except KafkaException as error:
                raise client.failure(what, answer_of(error)) from error


def _wire(partitions: Iterable[TopicPartition]) -> Iterator[Wire]:
    return (Wire(tp.topic, tp.partition) for tp in partitions)
