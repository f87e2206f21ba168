"""The last errors, each once however often it came in a row. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final

_KEPT: Final = 30
_LENGTH: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedError:
    """One error; `first` and `last` are in seconds since 1970."""

    about: str
    text: str
    first: float
    last: float
    times: int = 1

    def document(self) -> dict[str, Any]:
        """Its form in JSON."""
        return {
            "about": self.about,
            "error": self.text,
            "first": self.first,
            "last": self.last,
            "times": self.times,
        }


class ErrorLog:
    """At most 30 errors, the newest last. The same text about the same thing is counted."""

    def __init__(self) -> None:
        self._errors: deque[LoggedError] = deque(maxlen=_KEPT)

    def add(self, about: str, text: str, at: float) -> None:
        """Log one; `at` is in seconds since 1970."""
        about, text = about[:_LENGTH], text[:_LENGTH]
        for logged in self._errors:
            if (logged.about, logged.text) == (about, text):
                self._errors.remove(logged)
                self._errors.append(replace(logged, last=at, times=logged.times + 1))
                return
        self._errors.append(LoggedError(about=about, text=text, first=at, last=at))

    def newest(self) -> tuple[LoggedError, ...]:
        """All of them, the newest first."""
        return tuple(reversed(self._errors))
