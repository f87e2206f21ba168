"""The settings of a follower: checkpoints, clusters and groups, from arguments or a file."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.tracking.group_names import require_group
from eo_listener.errors import SettingsError
from eo_listener.spark.checkpoint.location import Location, shown

OTHER_TOPICS = "*"
_LONGEST_GROUP = 249  # not Kafka's rule, but tools accept no longer names


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedCheckpoint:
    """One checkpoint to follow, and the groups of its topics.

    `groups` maps topics to groups, with `*` for all other topics; the offsets of a topic without a
    group are not committed. `name` is the query's name for the metadata of commits; a checkpoint
    does not contain that name. Raises SettingsError for invalid groups.
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
                fix="Name a group: -g GROUP, or group = '...'",
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
        """Return the group of a topic, or None if the follower must not commit its offsets."""
        return self.groups.get(topic, self.groups.get(OTHER_TOPICS))


def parse_groups(words: Sequence[str]) -> dict[str, str]:
    """Parse groups of a command line: `GROUP` for all topics, `TOPIC=GROUP` for one.

    If the name of a group contains a `=`, write `*=GROUP` for all topics. Raises SettingsError.
    """
    groups: dict[str, str] = {}
    for word in words:
        topic, equals, group = word.partition("=")
        topic, group = (topic.strip(), group) if equals else (OTHER_TOPICS, word)
        if groups.setdefault(topic, group) != group:
            topics = "all topics" if topic == OTHER_TOPICS else f"topic {topic}"
            raise SettingsError(
                f"two groups are named for {topics}: {groups[topic]!r} and {group!r}",
                fix="Name one group; -g TOPIC=GROUP gives a topic a group of its own",
            )
    return groups


def open_all(targets: Sequence[FollowedCheckpoint]) -> list[tuple[FollowedCheckpoint, Location]]:
    """Return each target with its location.

    Raises StorageError, and SettingsError if two targets name the same checkpoint.
    """
    keys: set[str] = set()
    opened = []
    for target in targets:
        location = Location(target.location, target.storage)
        if location.key in keys:
            raise SettingsError(
                f"checkpoint {location} is named twice",
                cause="two spellings of one folder count as one",
                fix="Name it once; each of its topics may have its own group",
            )
        keys.add(location.key)
        opened.append((target, location))
    return opened


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Kind = tuple[type, ...]

_NUMBER: _Kind = (int, float)
_TEXT: _Kind = (str,)
_TABLE: _Kind = (dict,)
_TABLES: _Kind = (list,)
_SHARED: Mapping[str, _Kind] = {
    "bootstrap_servers": _TEXT,
    "group": _TEXT,
    "groups": _TABLE,
    "kafka": _TABLE,
    "storage": _TABLE,
}
_OWN = {**_SHARED, "location": _TEXT, "name": _TEXT}
_TOP = {
    **_SHARED,
    "checkpoint": _TABLES,
    "interval": _NUMBER,
    "recommit_interval": _NUMBER,
    "guard": _TEXT,
    "on_rewind": _TEXT,
    "mode": _TEXT,
}
_KINDS = {_NUMBER: "a number", _TEXT: "a text", _TABLE: "a table", _TABLES: "[[checkpoint]] tables"}
SERVICE = ("interval", "recommit_interval", "guard", "on_rewind", "mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The contents of a config file: the checkpoints, and the settings of the whole service."""

    targets: tuple[FollowedCheckpoint, ...]
    service: Mapping[str, Any]


def read(file: Path) -> Config:
    """Read a config file.

    Raises SettingsError, which names the wrong entry and explains how to correct it.
    """
    try:
        with file.open("rb") as opened:
            table = tomllib.load(opened)
    except FileNotFoundError:
        raise SettingsError(f"{file} does not exist", fix="Check --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read ({error})", fix="Check --config") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}", fix="Correct it there") from None
    return parse(table, str(file))


def parse(table: Mapping[str, Any], where: str) -> Config:
    """Make a Config from the parsed `table`; errors call the file `where`. Raises SettingsError."""
    _check(table, _TOP, where)
    entries = table.get("checkpoint", [])
    if not entries:
        _refuse(where, "names no checkpoint", "Add a table [[checkpoint]] with a location")
    targets = []
    for number, entry in enumerate(entries, 1):
        place = f"{where}, checkpoint {number}"
        if not isinstance(entry, dict):
            _refuse(place, "must be a table", "Write [[checkpoint]] above its settings")
        _check(entry, _OWN, place)
        targets.append(_target(entry, table, place))
    service = {name: table[name] for name in SERVICE if name in table}
    return Config(targets=tuple(targets), service=MappingProxyType(service))


def _target(entry: Mapping[str, Any], shared: Mapping[str, Any], where: str) -> FollowedCheckpoint:
    if "location" not in entry:
        _refuse(where, "has no location", "Write location = '/folder/of/the/checkpoint'")
    servers = entry.get("bootstrap_servers", shared.get("bootstrap_servers"))
    if servers is None:
        _refuse(where, "has no bootstrap_servers", "Write bootstrap_servers = 'host:port'")
    own = {"group", "groups"} & entry.keys()
    groups = _groups(entry if own else shared, where)
    kafka = {**shared.get("kafka", {}), **entry.get("kafka", {})}
    if "bootstrap.servers" in kafka:
        _refuse(where, "sets bootstrap.servers under kafka", "Write bootstrap_servers instead")
    properties = {name: _property(name, value, where) for name, value in kafka.items()}
    return FollowedCheckpoint(
        location=entry["location"],
        cluster=Cluster.from_properties({"bootstrap.servers": servers, **properties}),
        groups=groups,
        storage={**shared.get("storage", {}), **entry.get("storage", {})},
        name=entry.get("name"),
    )


def _groups(table: Mapping[str, Any], where: str) -> dict[str, str]:
    groups: dict[str, str] = dict(table.get("groups", {}))
    for topic, group in groups.items():
        if not isinstance(group, str):
            _refuse(where, f"has a group for {topic!r} that is not a string", "Put it into quotes")
    if "group" in table and groups.setdefault(OTHER_TOPICS, table["group"]) != table["group"]:
        _refuse(where, "names two groups for all topics", "Write group, or '*' in groups")
    if not groups:
        _refuse(where, "names no group", "Write group = 'name', or groups = { topic = 'name' }")
    return groups


def _property(name: str, value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    return _refuse(
        where, f"has a kafka property {name!r} that is not a string", "Put it into quotes"
    )


def _check(table: Mapping[str, Any], kinds: Mapping[str, _Kind], where: str) -> None:
    for name, value in table.items():
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, n=1)
            fix = f"Write {near[0]}" if near else f"Known settings: {', '.join(sorted(kinds))}"
            _refuse(where, f"has an unknown setting {name!r}", fix)
        if not isinstance(value, kinds[name]) or isinstance(value, bool):
            kind = _KINDS[kinds[name]]
            _refuse(where, f"has a {name} that is not {kind}", f"Give {name} {kind}")


def _refuse(where: str, problem: str, fix: str) -> NoReturn:
    raise SettingsError(f"{where} {problem}", fix=fix)
