"""Copies of a whole state, many thousands a second.

What cannot change is shared, the rest is copied: `pickle` and `copy.deepcopy` do too much.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from eo_listener.model.offsets import Offsets

Memo = dict[int, Any]
_How = Callable[[Any, Memo], Any]

_UNCHANGING = (str, int, float, tuple, frozenset, Enum, Offsets, type(None), types.MappingProxyType)


def clone(value: Any, memo: Memo) -> Any:
    """Return a copy; objects, lists, dicts and sets that are met twice stay one."""
    kind = type(value)
    try:
        how = _KINDS[kind]
    except KeyError:
        how = _KINDS[kind] = _choose(kind)
    return value if how is None else how(value, memo)


def _choose(kind: type) -> _How | None:
    if issubclass(kind, _UNCHANGING) or (is_dataclass(kind) and kind.__hash__ is not None):
        return None
    return _slotted if hasattr(kind, "__slots__") else _object


def _list(value: list[Any], memo: Memo) -> list[Any]:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = []
        made += [clone(one, memo) for one in value]
    return made


def _dict(value: dict[Any, Any], memo: Memo) -> Any:
    """Copy a dict or an OrderedDict; one that two objects share stays shared."""
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = type(value)()
        for key, one in value.items():
            made[key] = clone(one, memo)
    return made


def _set(value: set[Any], memo: Memo) -> set[Any]:
    made = memo.get(id(value))
    if made is None:
        made = memo[id(value)] = set(value)
    return made


def _slotted(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is not None:
        return known
    kind = type(value)
    made = memo[id(value)] = object.__new__(kind)
    for name in kind.__slots__:
        setattr(made, name, clone(getattr(value, name), memo))
    return made


def _object(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is not None:
        return known
    kind = type(value)
    made = memo[id(value)] = object.__new__(kind)
    fields = made.__dict__
    for name, one in value.__dict__.items():
        fields[name] = clone(one, memo)
    return made


_KINDS: dict[type, _How | None] = {
    list: _list,
    dict: _dict,
    OrderedDict: _dict,
    set: _set,
}
