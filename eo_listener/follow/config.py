"""The file of `eo-listener follow --config`: many checkpoints, their servers and groups.

bootstrap_servers = "localhost:9092"    # these are for every checkpoint that says nothing else
interval = 5

[[checkpoint]]
location = "s3a://bucket/checkpoints/flights"
group = "flights-to-pg"

[[checkpoint]]
location = "/data/checkpoints/joined"
groups = { flights = "joined-flights", "*" = "joined-rest" }
name = "joined"
kafka = { "security.protocol" = "SSL" }
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from eo_listener.commit.tracking.routing import Cluster
from eo_listener.follow.targets import REST, FollowedCheckpoint
from eo_listener.model.errors import SettingsError

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
    """What the file says: the checkpoints, and settings of the whole service that it names."""

    targets: tuple[FollowedCheckpoint, ...]
    service: Mapping[str, Any]


def read(file: Path) -> Config:
    """Read a config file. Raises SettingsError, which names the entry and what to write."""
    try:
        with file.open("rb") as opened:
            held = tomllib.load(opened)
    except FileNotFoundError:
        raise SettingsError(f"{file} does not exist", fix="Check --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read ({error})", fix="Check --config") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}", fix="Correct it there") from None
    return parse(held, str(file))


def parse(held: Mapping[str, Any], where: str) -> Config:
    """Build from the parsed file; `where` is what errors call it. Raises SettingsError."""
    _check(held, _TOP, where)
    entries = held.get("checkpoint", [])
    if not entries:
        _refuse(where, "names no checkpoint", "Add a table [[checkpoint]] with a location")
    targets = []
    for number, entry in enumerate(entries, 1):
        place = f"{where}, checkpoint {number}"
        if not isinstance(entry, dict):
            _refuse(place, "must be a table", "Write [[checkpoint]] above its settings")
        _check(entry, _OWN, place)
        targets.append(_target(entry, held, place))
    service = {name: held[name] for name in SERVICE if name in held}
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
        cluster=Cluster.of({"bootstrap.servers": servers, **properties}),
        groups=groups,
        storage={**shared.get("storage", {}), **entry.get("storage", {})},
        name=entry.get("name"),
    )


def _groups(held: Mapping[str, Any], where: str) -> dict[str, str]:
    groups: dict[str, str] = dict(held.get("groups", {}))
    for topic, group in groups.items():
        if not isinstance(group, str):
            _refuse(where, f"has a group for {topic!r} that is not a string", "Put it into quotes")
    if "group" in held and groups.setdefault(REST, held["group"]) != held["group"]:
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


def _check(held: Mapping[str, Any], known: Mapping[str, _Kind], where: str) -> None:
    for name, value in held.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            fix = f"Write {near[0]}" if near else f"Known are: {', '.join(sorted(known))}"
            _refuse(where, f"has a setting {name!r} that is not known", fix)
        if not isinstance(value, known[name]) or isinstance(value, bool):
            kind = _KINDS[known[name]]
            _refuse(where, f"has a {name} that is not {kind}", f"Give {name} {kind}")


def _refuse(where: str, problem: str, fix: str) -> NoReturn:
    raise SettingsError(f"{where} {problem}", fix=fix)
