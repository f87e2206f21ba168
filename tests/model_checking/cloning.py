"""Copies of a whole state, many thousands a second: what cannot change is shared."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from eo_listener.offsets import Offsets

Memo = dict[int, Any]
_How = Callable[[Any, Memo], Any]

_UNCHANGING = (str, int, float, tuple, frozenset, Enum, Offsets, type(None), types.MappingProxyType)
_CACHE = type(functools.cache(len))  # of a function of the arguments alone


def clone(value: Any, memo: Memo) -> Any:
    """Return a copy; objects, lists, dicts and sets that are met twice stay one."""
    how = _KINDS.get(type(value), _first)
    return value if how is None else how(value, memo)


def _first(value: Any, memo: Memo) -> Any:
    """Copy a value of a kind that was not met before."""
    kind = type(value)
    hashed = is_dataclass(kind) and kind.__hash__ is not None
    shared = hashed or issubclass(kind, (*_UNCHANGING, _CACHE))
    _KINDS[kind] = None if shared else _slotted if hasattr(kind, "__slots__") else _object
    return clone(value, memo)


def _list(value: list[Any], memo: Memo) -> list[Any]:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = []
        made += [clone(one, memo) for one in value]
    return made


def _dict(value: dict[Any, Any], memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = value.copy()
        _replace(made, value, memo)
    return made


def _set(value: set[Any], memo: Memo) -> set[Any]:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = set(value)
    return made


def _slotted(value: Any, memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        kind = type(value)
        made = memo[id(value)] = object.__new__(kind)
        for name in kind.__slots__:
            one = getattr(value, name)
            how = _KINDS.get(type(one), _first)
            setattr(made, name, one if how is None else how(one, memo))
    return made


def _object(value: Any, memo: Memo) -> Any:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = object.__new__(type(value))
        made.__dict__.update(value.__dict__)
        _replace(made.__dict__, value.__dict__, memo)
    return made


def _replace(made: dict[Any, Any], given: dict[Any, Any], memo: Memo) -> None:
    """Put copies in the place of what can change."""
    for key, one in given.items():
        how = _KINDS.get(type(one), _first)
        if how is not None:
            made[key] = how(one, memo)


_KINDS: dict[type, _How | None] = {list: _list, dict: _dict, OrderedDict: _dict, set: _set}
