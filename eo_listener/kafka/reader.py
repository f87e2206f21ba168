"""Read where groups and logs stand; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as Unanswered  # its own class until Python 3.11
from itertools import islice

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # not in its __all__

from eo_listener.errors import KafkaError
from eo_listener.kafka.clients import DEFAULTS, Client
from eo_listener.offsets import Position, TopicPartition

_GRACE = 1.0  # seconds that a future may take longer than the request it stands for
_AT_ONCE = 5000  # partitions in one request
_GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


class ClusterReader:
    """Group offsets and log ends of one cluster. Every call raises KafkaError on failure.

    `timeout` bounds each request, in seconds.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float = 10.0) -> None:
        self._properties = {**DEFAULTS, **properties}
        self._client = Client(properties)
        self._timeout = timeout

    def group(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, Position]:
        """The offsets that a group holds, with their metadata; empty for an unknown group.

        Looks at all partitions of the cluster when none are named.

        Through a consumer that never subscribes, not through the admin client: librdkafka's
        `ListConsumerGroupOffsets` follows a null pointer when the coordinator has moved
        (librdkafka#5040, up to 2.16.1), and takes the whole process with it.
        """
        asked = iter(self.partitions() if partitions is None else tuple(partitions))
        settings = {**self._properties, "group.id": group, "enable.auto.commit": "false"}
        consumer = Consumer(settings)
        positions = {}
        try:
            while chunk := [Wire(tp.topic, tp.partition) for tp in islice(asked, _AT_ONCE)]:
                for part in consumer.committed(chunk, timeout=self._timeout):
                    if part.error is not None:
                        raise KafkaException(part.error)  # noqa: TRY301  # one way out for both kinds
                    if part.offset >= 0:
                        metadata = (part.metadata or "").rstrip("\0")
                        tp = TopicPartition(part.topic, part.partition)
                        positions[tp] = Position(offset=part.offset, metadata=metadata)
        except KafkaException as error:
            raise self._client.failure(f"reading group {group}", error) from error
        finally:
            consumer.close()
        return positions

    def partitions(self, topics: Iterable[str] | None = None) -> tuple[TopicPartition, ...]:
        """All partitions of these topics, or of all but Kafka's own; none of an unknown topic."""
        try:
            metadata = self._client.admin.list_topics(timeout=self._timeout)
        except KafkaException as error:
            raise self._client.failure("listing topics", error) from error
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
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the library's gap
        asked = {Wire(tp.topic, tp.partition): latest for tp in partitions}
        if not asked:
            return {}
        futures = self._client.admin.list_offsets(asked, request_timeout=self._timeout)
        ends = {}
        for wire, future in futures.items():
            what = f"reading the end of {wire.topic}-{wire.partition}"
            try:
                end = future.result(timeout=self._timeout + _GRACE).offset
            except KafkaException as error:
                failure = self._client.failure(what, error)
                if failure.code not in _GONE:
                    raise failure from error
            except Unanswered as error:
                raise KafkaError(f"{what} was not answered", code="_TIMED_OUT") from error
            else:
                ends[TopicPartition(wire.topic, wire.partition)] = end
        return ends
