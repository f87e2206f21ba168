"""Keeps the newest reading while it is current, and the newest errors without duplicates."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

_T = TypeVar("_T")
_KEPT: Final = 30  # errors
_LENGTH: Final = 2_000  # characters of an error


class Moment(NamedTuple):
    """A moment on both clocks: `wall`, in seconds since 1970, is for display only."""

    wall: float
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """Return the current moment."""
        return cls(time.time(), time.monotonic())


class Reading(Generic[_T]):
    """The `value` of a reading that began at the time `at`; no part of the value is older."""

    def __init__(self, value: _T, at: Moment) -> None:
        self.value = value
        self.at = at
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[_T], bytes]) -> bytes:
        """Return `make(value)`, but call `make` only once for each `name`, for all threads."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make(self.value)
            rendered: bytes = self._made[name]
            return rendered


@dataclass(frozen=True, slots=True)
class Unknown:
    """Replaces a missing reading; `error` is the reason, `since` the time of the last reading."""

    since: Moment | None
    error: str


class Newest(Generic[_T]):
    """The newest reading: one thread reads, and any number of threads ask for the reading.

    A reading is no longer current if a later reading has failed, or after `keeps` seconds.
    """

    def __init__(self, keeps: float) -> None:
        self._keeps = keeps
        self._lock = threading.Lock()
        self._reading: Reading[_T] | None = None
        self._since: Moment | None = None
        self._error = "it has not been read yet"

    def took(self, value: _T, at: Moment) -> None:
        """Keep the value of a successful reading that began at the time `at`."""
        with self._lock:
            self._reading, self._since = Reading(value, at), at

    def failed(self, error: str) -> None:
        """Record that a reading has failed."""
        with self._lock:
            self._reading, self._error = None, error

    def at(self, now: Moment) -> Reading[_T] | Unknown:
        """Return the newest reading, or Unknown if there is none or it is too old."""
        with self._lock:
            reading, since, error = self._reading, self._since, self._error
        if reading is None:
            return Unknown(since, error)
        age = now.monotonic - reading.at.monotonic
        if age > self._keeps:
            return Unknown(since, f"no answer for {age:.0f} s")
        return reading


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedError:
    """One error, as the page's JSON lists it. `first` and `last` are in seconds since 1970."""

    about: str
    error: str
    first: float
    last: float
    times: int = 1


class ErrorLog:
    """The last 30 errors, the newest last. Counts equal errors about the same subject."""

    def __init__(self) -> None:
        self._errors: deque[LoggedError] = deque(maxlen=_KEPT)

    def add(self, about: str, error: str, at: float) -> None:
        """Add an error; `at` is in seconds since 1970."""
        added = LoggedError(about=about[:_LENGTH], error=error[:_LENGTH], first=at, last=at)
        for logged in self._errors:
            if (logged.about, logged.error) == (added.about, added.error):
                self._errors.remove(logged)
                added = replace(logged, last=at, times=logged.times + 1)
                break
        self._errors.append(added)

    def newest(self) -> tuple[LoggedError, ...]:
        """Return all errors, the newest first."""
        return tuple(reversed(self._errors))
