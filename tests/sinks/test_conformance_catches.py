"""The suite for sinks fails where a sink is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from eo_listener.testing import MemoryStore
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import Row
from tests.sinks.broken import BUGS, Broken


class Suite(SinkConformance):
    """The suite on a sink that its name does not let pytest collect."""

    def __init__(self, kind: type[Broken]) -> None:
        self.kind = kind
        self.store = MemoryStore(lock_timeout=0.2)

    def open_sink(self, target: str) -> Broken:
        """Open a sink on the one store."""
        return self.kind(self.store, key=target)

    def read_rows(self, target: str) -> list[Row]:
        """Read the store."""
        return list(self.store.rows.get(target, []))

    def make_frame(self, rows: Sequence[Row]) -> Sequence[Row]:
        """A list will do."""
        return rows


def failures(kind: type[Broken]) -> Iterator[str]:
    """Yield the tests of the suite that fail."""
    for name in dir(SinkConformance):
        if name.startswith("test_"):
            try:
                getattr(Suite(kind), name)()
            except Exception:  # noqa: BLE001  # any failure of a test is one
                yield name


def test_a_right_sink_passes() -> None:
    """Where nothing is broken nothing fails, so what fails is the bug."""
    assert not list(failures(Broken))


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_caught(bug: type[Broken]) -> None:
    """At least one test of the suite fails on each sink that is wrong."""
    assert next(failures(bug), None) is not None
