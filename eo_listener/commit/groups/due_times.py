"""When each of many is next due, where few change at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class DueTimes:
    """When each item is next due; only items marked as changed are computed again."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        # In order: of two that are due the first goes first.
        self._changed_names: dict[str, None] = {}

    def mark_changed(self, name: str) -> None:
        """Compute the due time of this item again at the next call of `times`."""
        self._changed_names[name] = None

    def postpone(self, name: str) -> None:
        """Put an item that was served behind all others, and compute its due time again."""
        self._times.pop(name, None)
        self._changed_names.pop(name, None)
        self._changed_names[name] = None

    def times(self, ask: Callable[[str], float | None]) -> Mapping[str, float]:
        """All times, of those served last at the end.

        `ask` is called for the changed ones, and returns None for one that is not due at any time.
        """
        for name in self._changed_names:
            time = ask(name)
            if time is None:
                self._times.pop(name, None)
            else:
                self._times[name] = time
        self._changed_names.clear()
        return self._times
