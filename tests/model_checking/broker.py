"""A Kafka cluster as far as a committer sees it: logs with ids, groups, requests on their way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Position, TopicPartition


@dataclass(slots=True)
class Topic:
    """A topic's present life: a new id each time it is created."""

    id: str
    starts: list[int]
    ends: list[int]


@dataclass(frozen=True, slots=True)
class Request:
    """A commit on its way: it may land until `expires`, or never."""

    driver: str
    group: str
    positions: tuple[tuple[TopicPartition, Position], ...]
    sent: float
    expires: float
    zombie: bool = False  # its driver had stood still when it sent it


@dataclass(slots=True)
class Cluster:
    """Topics, groups, and who may commit: when fenced, who looked last (`owners`)."""

    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, dict[TopicPartition, Position]] = field(default_factory=dict)
    delayed: list[Request] = field(default_factory=list)
    fencing: bool = False
    owners: dict[str, str] = field(default_factory=dict)
    outlived: set[tuple[str, str]] = field(default_factory=set)
    members: bool = False

    def create(self, name: str, partitions: int) -> None:
        """Create a topic, or recreate it with some records; its group offsets are gone then."""
        life = int(self.topics[name].id.rpartition("#")[2]) + 1 if name in self.topics else 1
        self.delete(name)
        end = 3 if life > 1 else 0
        self.topics[name] = Topic(f"{name}#{life}", [0] * partitions, [end] * partitions)

    def delete(self, name: str) -> None:
        """Delete a topic, and with it its group offsets."""
        self.topics.pop(name, None)
        for held in self.groups.values():
            for tp in [tp for tp in held if tp.topic == name]:
                del held[tp]

    def exists(self, tp: TopicPartition) -> bool:
        topic = self.topics.get(tp.topic)
        return topic is not None and tp.partition < len(topic.ends)

    def grow(self, ends: Mapping[TopicPartition, int]) -> None:
        for tp, end in ends.items():
            topic = self.topics[tp.topic]
            topic.ends[tp.partition] = max(topic.ends[tp.partition], end)

    def held(self, group: str) -> dict[TopicPartition, Position]:
        return self.groups.setdefault(group, {})

    def admits(self, driver: str, group: str) -> bool:
        """Whether the driver may use the group; in the fenced mode its first use takes it over."""
        if not self.fencing:
            return True
        if (group, driver) in self.outlived:
            return False
        owner = self.owners.get(group)
        if owner != driver:
            if owner is not None:
                self.outlived.add((group, owner))
            self.owners[group] = driver
        return True

    def snapshot(self, group: str, partitions: Collection[TopicPartition]) -> GroupSnapshot:
        held = self.groups.get(group, {})
        here = [tp for tp in partitions if self.exists(tp)]
        return GroupSnapshot(
            positions={tp: held[tp] for tp in partitions if tp in held},
            starts={tp: self.topics[tp.topic].starts[tp.partition] for tp in here},
            ends={tp: self.topics[tp.topic].ends[tp.partition] for tp in here},
            topic_ids={
                tp.topic: self.topics[tp.topic].id for tp in partitions if tp.topic in self.topics
            },
        )

    def answer(
        self, positions: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, str | None]:
        """What the coordinator answers to a commit by itself."""
        if self.members and not self.fencing:
            return dict.fromkeys(positions, "UNKNOWN_MEMBER_ID")
        return {tp: None if self.exists(tp) else "UNKNOWN_TOPIC_OR_PART" for tp in positions}
