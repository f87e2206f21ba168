"""The sink in memory is a sink like any other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eo_listener.testing import MemorySink, MemoryStore
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import Row


class TestMemorySink(SinkConformance):
    """MemorySink passes the suite."""

    @pytest.fixture(autouse=True)
    def _store(self) -> None:
        self.store = MemoryStore()

    def open_sink(self, target: str) -> MemorySink:
        """Open a sink on the one store."""
        return MemorySink(self.store, key=target)

    def read_rows(self, target: str) -> list[Row]:
        """Read the store."""
        return list(self.store.rows.get(target, []))

    def make_frame(self, rows: Sequence[Row]) -> Sequence[Row]:
        """A list will do."""
        return rows
