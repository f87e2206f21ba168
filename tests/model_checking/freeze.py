"""One hashable value for a whole state; times count as distances from now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import repeat
from operator import attrgetter
from typing import Any

from eo_listener.offsets import Offsets, Position, TopicPartition

FAR = 2_000.0
# What can be hashed as it is, and holds no moment.
_VALUES = frozenset(
    {"Progress", "Batch", "Beginning", "Violation", "CommitMetadata", "Started", "LateEvent"}
)
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
    "options_due": 0.0,
    "silence": 0.0,
}
# What stands elsewhere in the state already.
_ELSEWHERE = frozenset({"_hash", "_active", "_committer", "_queries", "_failing"})
# What changes only the text of an event: nothing else follows from it.
_WORDING = frozenset({"persistent", "since"})
# Counters whose value no longer matters from here on.
_SATURATED = {"positions_read": 2, "silent": 0, "failures": 3, "options_attempts": 7}


def freeze(value: object, now: float) -> object:
    return _first(value, now, "")


def _first(value: Any, now: float, name: str) -> object:
    """Freeze a value of a kind that was perhaps not met before."""
    kind = type(value)
    if kind not in _KINDS:
        _KINDS[kind] = _choose(value)
    how = _KINDS[kind]
    return value if how is None else how(value, now, name)


def _choose(value: Any) -> _How | None:
    kind = type(value)
    if kind.__name__ in _CONSTANT:
        return lambda value, now, name: None
    if issubclass(kind, Mapping):
        return _mapping
    if issubclass(kind, Enum) or kind.__name__ in _VALUES:
        return None
    fields = getattr(kind, "__slots__", None) or sorted(vars(value))
    return _object(kind, [name for name in fields if name not in _ELSEWHERE | _WORDING])


def _object(kind: type, names: list[str]) -> _How:
    get = attrgetter(*names, "__class__")  # of two or more it makes a tuple

    def how(value: Any, now: float, name: str) -> object:
        return (kind.__name__, *_each(zip(names, get(value), strict=False), now))

    return how


def _each(named: Iterable[tuple[Any, Any]], now: float) -> list[object]:
    return [
        one if (how := _KINDS.get(type(one), _first)) is None else how(one, now, name)
        for name, one in named
    ]


def _time(value: float, now: float, name: str) -> float:
    if name in _DURATIONS:
        return value
    return round(max(_AGED.get(name, -FAR), value - now), 3)


def _sequence(value: Any, now: float, name: str) -> object:
    return tuple(_each(zip(repeat(name), value, strict=False), now)) if value else ()


def _mapping(value: Any, now: float, name: str) -> object:
    """What can be a key holds no moment."""
    if not value:
        return ()
    frozen = _each(zip(repeat(name), value.values(), strict=False), now)
    return frozenset(zip(value, frozen, strict=True))


def _count(value: int, now: float, name: str) -> object:
    return min(value, _SATURATED[name]) if name in _SATURATED else value


def _set(value: Any, now: float, name: str) -> object:
    return frozenset(value)


_KINDS: dict[type, _How | None] = {
    **dict.fromkeys((str, bool, type(None), frozenset, Offsets, Position, TopicPartition)),
    int: _count,
    float: _time,
    tuple: _sequence,
    list: _sequence,
    set: _set,
}
