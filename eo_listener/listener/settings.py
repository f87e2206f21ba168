"""The settings of a listener, from a program's arguments or from Spark's configuration."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from eo_listener.commit.groups.policy import CommitMode, OnRewind, Policy
from eo_listener.commit.tracking.group_names import GroupNames, Groups
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.errors import SettingsError
from eo_listener.model.argument_checks import choice, require_one_of, require_seconds
from eo_listener.observers.bounded_server import LOOPBACK, require_address, require_port

PREFIX: Final = "spark.eo."
FLUSH_TIMEOUT: Final = 10.0
BRIDGE_TIMEOUT: Final = 30.0

Mode = Literal["simple", "member", "transactional"]
Guarding = Literal["withhold", "warn"]
Rewinding = Literal["refuse", "allow"]

_KAFKA: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SWITCHES: Final = {"true": True, "false": False}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a listener; `OffsetCommitListener` explains the arguments of the same names.

    `kafka` has librdkafka properties, including `bootstrap.servers`, and may have secrets.
    `bridge_timeout` is the time, in seconds, for which the bridge may be silent before the JVM
    starts another bridge.
    """

    groups: Groups = field(default_factory=lambda: MappingProxyType({}))
    group_template: str | None = None
    kafka: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    mode: CommitMode = CommitMode.SIMPLE
    guard: GuardMode = GuardMode.WITHHOLD
    on_rewind: OnRewind = OnRewind.REFUSE
    recommit_interval: float = RECOMMIT_INTERVAL
    flush_timeout: float = FLUSH_TIMEOUT
    preflight: bool = True
    metrics_port: int | None = None
    metrics_address: str = LOOPBACK
    bridge_timeout: float = BRIDGE_TIMEOUT

    def __post_init__(self) -> None:
        """Raise SettingsError for a value that has the wrong type or is out of range."""
        require_seconds("recommit_interval", self.recommit_interval, least=1.0)
        require_seconds("flush_timeout", self.flush_timeout)
        require_seconds("bridge_timeout", self.bridge_timeout, least=1.0)
        require_texts(self.kafka)
        if type(self.preflight) is not bool:
            raise SettingsError(
                f"preflight must be True or False, got {self.preflight!r}",
                fix="Give preflight=False to skip the check at the start",
            )
        if self.metrics_port is not None:
            require_port(self.metrics_port)
        require_address(self.metrics_address)

    @classmethod
    def from_arguments(
        cls,
        *,
        bootstrap_servers: object = None,
        kafka: Mapping[str, str] = MappingProxyType({}),
        mode: str = "simple",
        guard: str = "withhold",
        on_rewind: str = "refuse",
        **settings: Any,
    ) -> Settings:
        """Build settings from a program's arguments, which give enum values as strings.

        Raises SettingsError.
        """
        if not isinstance(kafka, Mapping):
            raise SettingsError(
                f"kafka must be a mapping, got {type(kafka).__name__}",
                fix="Give client properties as a dict, such as {'client.rack': 'a'}, or "
                "leave out kafka=",
            )
        properties = dict(kafka)
        if bootstrap_servers is not None:
            if not isinstance(bootstrap_servers, str) or not bootstrap_servers.strip():
                raise SettingsError(
                    f"bootstrap_servers must be host:port, got {bootstrap_servers!r}",
                    fix="Give 'host:9092'; separate several with commas",
                )
            properties[_SERVERS] = bootstrap_servers
        return cls(
            kafka=MappingProxyType(properties),
            mode=choice(CommitMode, "mode", mode),
            guard=choice(GuardMode, "guard", guard),
            on_rewind=choice(OnRewind, "on_rewind", on_rewind),
            **settings,
        )

    @classmethod
    def from_conf(cls, conf: Mapping[str, str]) -> Settings:
        """Build settings from the keys `spark.eo.*` in Spark's configuration.

        Raises SettingsError, which names the key, also for an unknown key.
        """
        arguments: dict[str, Any] = {}
        kafka: dict[str, str] = {}
        for key, text in conf.items():
            if not key.startswith(PREFIX):
                continue
            name = key.removeprefix(PREFIX)
            if name.startswith(_KAFKA):
                kafka[name.removeprefix(_KAFKA)] = text
            elif name in _ARGUMENTS:
                argument, read = _ARGUMENTS[name]
                arguments[argument] = read(key, text)
            elif name not in _OTHERS:
                _refuse(key)
        return cls.from_arguments(kafka=kafka, **arguments)

    @property
    def routing(self) -> GroupRouting:
        """The settings for groups and clusters. Raises SettingsError for an unusable group."""
        names = GroupNames(
            groups=self.groups,
            template=self.group_template,
            only_ascii=self.mode is CommitMode.TRANSACTIONAL,
        )
        return GroupRouting(names=names, kafka=self.kafka)

    @property
    def policy(self) -> Policy:
        """The committer's policy."""
        return Policy(on_rewind=self.on_rewind, accept_marks=self.guard is not GuardMode.WITHHOLD)


def require_texts(properties: Mapping[Any, Any]) -> None:
    """Raise SettingsError, which quotes no value, for properties that are not strings.

    Functions are allowed as values: they are confluent-kafka's callbacks.
    """
    for name, value in properties.items():
        if not isinstance(name, str) or not (isinstance(value, str) or callable(value)):
            raise SettingsError(
                f"the names and values in kafka must be strings; the property {name!r} is not",
                fix="Write names and values as strings, as librdkafka documents them",
            )


def _text(_key: str, text: str) -> str:
    return text


def _seconds(key: str, text: str) -> float:
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS:
        raise SettingsError(
            f"{key} must be a time, got {text!r}", fix="Give seconds, or a time such as 30s or 1h"
        )
    return float(match[1]) * _UNITS[match[2]]


def _number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(
            f"{key} must be a whole number, got {text!r}", fix="Give digits"
        ) from None


def _switch(key: str, text: str) -> bool:
    value = _SWITCHES.get(text.lower())
    if value is None:
        require_one_of(key, text, _SWITCHES)
    return bool(value)


def _groups(key: str, text: str) -> Groups:
    try:
        groups = json.loads(text)
    except ValueError:
        groups = None
    if not isinstance(groups, dict):
        raise SettingsError(
            f"{key} must be a JSON object, got {text!r}",
            fix='Give {"query": "group"}, or {"query": {"topic": "group", "*": "the rest"}}',
        )
    return groups


_ARGUMENTS: Final[Mapping[str, tuple[str, Any]]] = {
    "groups": ("groups", _groups),
    "group.template": ("group_template", _text),
    _SERVERS: ("bootstrap_servers", _text),
    "mode": ("mode", _text),
    "guard": ("guard", _text),
    "on.rewind": ("on_rewind", _text),
    "recommit.interval": ("recommit_interval", _seconds),
    "flush.timeout": ("flush_timeout", _seconds),
    "bridge.timeout": ("bridge_timeout", _seconds),
    "preflight": ("preflight", _switch),
    "metrics.port": ("metrics_port", _number),
    "metrics.address": ("metrics_address", _text),
}
_OTHERS: Final = frozenset({"python"})  # the JVM reads this key before it starts Python


def _refuse(key: str) -> None:
    keys = sorted(PREFIX + name for name in (*_ARGUMENTS, *_OTHERS))
    near = difflib.get_close_matches(key, keys, n=1)
    raise SettingsError(
        f"unknown setting {key}",
        cause="it is misspelt or belongs to another version",
        fix=f"Write {near[0]}" if near else f"Known keys: {', '.join(keys)}, {PREFIX}{_KAFKA}*",
    )
