"""When each of many is next due, where few change at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class DueTimes:
    """Times by name. With a thousand of them, only those that were stirred are asked again."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._stirred: dict[str, None] = {}  # in order, so that of two that are due the first is

    def mark_changed(self, name: str) -> None:
        """Its time may be another by now."""
        self._stirred[name] = None

    def postpone(self, name: str) -> None:
        """It was served: it stands behind all others now. Its time may be another by now."""
        self._times.pop(name, None)
        self._stirred.pop(name, None)
        self._stirred[name] = None

    def times(self, ask: Callable[[str], float | None]) -> Mapping[str, float]:
        """All times, of those served last at the end.

        `ask` is called for those that were stirred, and gives None for no time.
        """
        for name in self._stirred:
            time = ask(name)
            if time is None:
                self._times.pop(name, None)
            else:
                self._times[name] = time
        self._stirred.clear()
        return self._times
