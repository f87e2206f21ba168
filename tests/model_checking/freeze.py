"""One hashable value for a whole state, so that a search sees each state once.

Times count as distances from now: two states that differ only in the hour are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from eo_listener.model.offsets import Offsets, Position, TopicPartition

FAR = 2_000.0
# What can be hashed as it is, and holds no moment.
_VALUES = frozenset({"Progress", "Batch", "Violation", "CommitMetadata", "Started", "LateEvent"})
_How = Callable[[Any, float, str], object]
# Settings and constants: the same in all states of one search.
_CONSTANT = frozenset({"Policy", "Backoff", "GroupEvents", "GroupRouting", "NoJitter", "Scope"})
# Any other float is a moment. To take a duration for one splits states, and hides none.
_DURATIONS = frozenset({"delay", "recommit_interval", "_recommit_interval"})

# How old a moment can be and still matter.
_AGED = {
    "planned": -60.0,
    "log_starts": -60.0,
    "snapshot_at": -60.0,
    "not_before": 0.0,
    "_due": 0.0,
    "due": 0.0,
    "silence": 0.0,
}
# What stands elsewhere in the state already.
_ELSEWHERE = frozenset({"_hash", "_active", "_committer", "_queries", "_failing"})
# What changes only the text of an event: nothing else follows from it.
_WORDING = frozenset({"persistent", "since"})
# Counters whose value no longer matters from here on.
_SATURATED = {"positions_read": 2, "silent": 0, "failures": 3}

_fields: dict[type, tuple[str, ...]] = {}


def freeze(value: object, now: float) -> object:
    """Return the hashable value."""
    return _freeze(value, now, "")


def _freeze(value: Any, now: float, name: str) -> object:
    kind = type(value)
    how = _KINDS.get(kind)
    if how is None:
        how = _KINDS[kind] = _choose(kind)
    return how(value, now, name)


def _choose(kind: type) -> _How:
    if kind.__name__ in _CONSTANT:
        return _nothing
    if issubclass(kind, Mapping):
        return _mapping
    if issubclass(kind, Enum) or kind.__name__ in _VALUES:
        return _itself
    return _object


def _time(value: float, now: float, name: str) -> float:
    if name in _DURATIONS:
        return value
    return round(max(_AGED.get(name, -FAR), value - now), 3)


def _sequence(value: Any, now: float, name: str) -> object:
    return tuple([_freeze(one, now, name) for one in value])


def _set(value: Any, now: float, name: str) -> object:
    return frozenset(value)


def _mapping(value: Any, now: float, name: str) -> object:
    return frozenset([(_freeze(k, now, name), _freeze(v, now, name)) for k, v in value.items()])


def _object(value: Any, now: float, name: str) -> object:
    kind = type(value)
    names = _fields.get(kind)
    if names is None:
        names = getattr(kind, "__slots__", None) or tuple(sorted(vars(value)))
        _fields[kind] = names = tuple(n for n in names if n not in _ELSEWHERE | _WORDING)
    return (kind.__name__, *[_freeze(getattr(value, n), now, n) for n in names])


def _itself(value: Any, now: float, name: str) -> object:
    return value


def _nothing(value: Any, now: float, name: str) -> object:
    return None


def _count(value: int, now: float, name: str) -> object:
    return min(value, _SATURATED[name]) if name in _SATURATED else value


_KINDS: dict[type, _How] = {
    str: _itself,
    bool: _itself,
    type(None): _itself,
    int: _count,
    float: _time,
    tuple: _sequence,
    list: _sequence,
    set: _set,
    frozenset: _set,
    Offsets: _itself,
    Position: _itself,
    TopicPartition: _itself,
}
