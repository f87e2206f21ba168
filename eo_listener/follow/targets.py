"""What to follow: a checkpoint, its cluster, and the groups of its topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from eo_listener.commit.tracking.group_names import require_group
from eo_listener.commit.tracking.routing import Cluster
from eo_listener.model.errors import SettingsError
from eo_listener.spark.checkpoint import Location, shown

REST = "*"
_LONGEST_GROUP = 249  # not Kafka's rule, but no tool shows or names longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedCheckpoint:
    """One checkpoint to follow.

    `groups` goes from topics to groups, `*` for the rest; a topic with none is left alone.
    `name` is what the commits' metadata calls the query: a checkpoint does not hold its name.
    Raises SettingsError for groups that are none.
    """

    location: str
    cluster: Cluster
    groups: Mapping[str, str]
    storage: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    name: str | None = None

    def __post_init__(self) -> None:
        if not self.groups:
            raise SettingsError(
                f"no group is named for {shown(self.location)}",
                fix="Name one: -g GROUP, or group = '...'",
            )
        for topic, group in self.groups.items():
            if not topic.strip() or not group.strip() or len(group) > _LONGEST_GROUP:
                raise SettingsError(
                    f"the group for {topic[:60]!r} must have 1 to {_LONGEST_GROUP} characters, got "
                    f"{group[:60]!r}",
                    fix="Write -g GROUP for all topics, or -g TOPIC=GROUP for one",
                )
            require_group(group, f"the group for topic {topic!r}")

    def group(self, topic: str) -> str | None:
        """The group of a topic; None for one that is to be left alone."""
        return self.groups.get(topic, self.groups.get(REST))

    def open(self) -> Location:
        """The place of the checkpoint. Raises SettingsError and StorageError."""
        return Location(self.location, self.storage)


def parse_groups(given: Sequence[str]) -> dict[str, str]:
    """Read groups as they are typed: `GROUP` for all topics, `TOPIC=GROUP` for one.

    A group that holds a `=` itself is written `*=GROUP`. Raises SettingsError.
    """
    groups: dict[str, str] = {}
    for one in given:
        topic, equals, group = one.partition("=")
        topic, group = (topic.strip(), group) if equals else (REST, one)
        if groups.setdefault(topic, group) != group:
            which = "all topics" if topic == REST else f"topic {topic}"
            raise SettingsError(
                f"two groups are named for {which}: {groups[topic]!r} and {group!r}",
                fix="Name one; -g TOPIC=GROUP gives a topic a group of its own",
            )
    return groups


def open_all(targets: Sequence[FollowedCheckpoint]) -> list[tuple[FollowedCheckpoint, Location]]:
    """Open every target. Raises SettingsError when two of them are the same checkpoint."""
    seen: set[str] = set()
    opened = []
    for target in targets:
        location = target.open()
        if location.key in seen:
            raise SettingsError(
                f"checkpoint {location} is named twice",
                cause="two spellings of one folder count as one",
                fix="Name it once; several topics may have a group each",
            )
        seen.add(location.key)
        opened.append((target, location))
    return opened
