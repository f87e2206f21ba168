"""Checks arguments and options, so that the same mistake causes the same error text everywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

from eo_listener.errors import SettingsError

_Choice = TypeVar("_Choice", bound=Enum)


def require_one_of(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise SettingsError if `value`, which a user gave for `name`, is not one of `choices`."""
    choices = tuple(choices)
    if value not in choices:
        raise SettingsError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}",
            fix="Give one of these",
        )


def choice(kind: type[_Choice], name: str, value: object) -> _Choice:
    """Return the member of the enum `kind` with this value.

    Raises SettingsError if no member has this value.
    """
    if not isinstance(value, kind):
        require_one_of(name, value, (member.value for member in kind))
    return kind(value)


def require_seconds(name: str, value: object, *, least: float = 0.0) -> float:
    """Return a time in seconds. Raises SettingsError unless it is finite and at least `least`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value < threading.TIMEOUT_MAX:  # type: ignore[operator]  # a number
        raise SettingsError(
            f"{name} must be a finite number of seconds, at least {least:g}, got {value!r}",
            fix="Give a number of seconds",
        )
    return float(value)  # type: ignore[arg-type]  # as above


def require_observers(observers: object) -> tuple[Callable[[Any], None], ...]:
    """Return `observers` as a tuple. Raises SettingsError if one of them is not callable."""
    if not isinstance(observers, Iterable):
        raise SettingsError(
            f"observers must be a list, got {observers!r}", fix="Give a list: observers=[print]"
        )
    functions = tuple(observers)
    for observer in functions:
        if not callable(observer):
            raise SettingsError(
                f"observers must contain functions only, got {observer!r}",
                fix="Give functions that take an event",
            )
    return functions
