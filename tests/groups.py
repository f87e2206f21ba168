"""Consumer groups, by our own clients: Kafka's tool takes 2 s a look."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer

from eo_listener.errors import KafkaError
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import Position, TopicPartition
from tests.waiting import until

NAME = "odd [/red] name"


def positions(servers: str, group: str) -> dict[TopicPartition, Position]:
    """What a group holds. Raises KafkaError, as while its coordinator is only being made."""
    with closing(ClusterReader({"bootstrap.servers": servers})) as reader:
        return dict(reader.group(group))


def await_assignment(consumer: Consumer) -> None:
    def joined() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    until(joined)


class Described(NamedTuple):
    """A partition of a group, as `kafka-consumer-groups --describe` shows it."""

    topic: str
    partition: int
    current_offset: int
    log_end_offset: int

    @property
    def lag(self) -> int:
        return self.log_end_offset - self.current_offset


def described(servers: str, group: str) -> tuple[Described, ...]:
    """Each partition that a group holds, in order. Raises KafkaError."""
    with closing(ClusterReader({"bootstrap.servers": servers})) as reader:
        held = reader.group(group)
        ends = reader.log_ends(list(held))
    return tuple(Described(*tp, held[tp].offset, ends[tp]) for tp in sorted(held))


def shown_state(printed: str) -> tuple[str, int]:
    """State and number of members, as `kafka-consumer-groups --describe --state` printed them."""
    *_, state, members = printed.split()
    return state, int(members)


def total(servers: str, group: str) -> int:
    return sum(position.offset for position in positions(servers, group).values())


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit as a listener of query NAME does, with batch 7."""
    metadata = CommitMetadata.for_batch(
        name=NAME, query_id="q" * 36, run_id="r" * 36, batch_id=7
    ).text()
    commit_all(servers, group, {TopicPartition(topic, at): offsets[at] for at in offsets}, metadata)


def commit_all(
    servers: str, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
) -> None:
    """Commit until it lands: a broker that has just started has no coordinator yet."""
    wanted = {tp: Position(offset=at, metadata=metadata) for tp, at in offsets.items()}
    with closing(SimpleGroups({"bootstrap.servers": servers})) as store:
        insist(store, group, wanted)


def insist(
    store: GroupStore,
    group: str,
    positions: Mapping[TopicPartition, Position],
    seconds: float = 60,
    timeout: float = 8,
) -> None:
    """Commit until it is confirmed: coordinators are made at their first use."""

    def landed() -> bool:
        return set(store.commit(group, positions, timeout=timeout).values()) == {None}

    until(landed, seconds, despite=KafkaError)
