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
    """Return a copy; objects that are met twice stay one."""
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
    return [clone(one, memo) for one in value] if value else []


def _dict(value: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    return {key: clone(one, memo) for key, one in value.items()} if value else {}


def _ordered(value: OrderedDict[Any, Any], memo: Memo) -> OrderedDict[Any, Any]:
    return OrderedDict((key, clone(one, memo)) for key, one in value.items())


def _set(value: set[Any], memo: Memo) -> set[Any]:
    return set(value)


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
    OrderedDict: _ordered,
    set: _set,
}
