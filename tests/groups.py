"""What consumer groups hold, by our own reader: Kafka's tool takes 2 s a look."""

from __future__ import annotations

from contextlib import closing

from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.model.offsets import Position, TopicPartition


def positions(servers: str, group: str) -> dict[TopicPartition, Position]:
    """What a group holds. Raises KafkaError, as while its coordinator is only being made."""
    with closing(ClusterReader({"bootstrap.servers": servers})) as reader:
        return dict(reader.group(group))


def shown_state(printed: str) -> tuple[str, int]:
    """State and number of members, as `kafka-consumer-groups --describe --state` printed them."""
    *_, state, members = printed.split()
    return state, int(members)


def total(servers: str, group: str) -> int:
    """The sum of its offsets. Raises KafkaError."""
    return sum(position.offset for position in positions(servers, group).values())
