"""The sink in memory is a sink like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eo_listener.model.counted_sources import BATCHES, CountedSources
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink, MemoryStore
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import Row, entry_of, heads_of, plan_of


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


def test_a_batch_of_counted_sources_too_is_one_transaction() -> None:
    """Rows of a file belong to no partition; of a sink with a transaction for each none is lost."""
    sink = MemorySink(per_partition=True)
    entry = entry_of({}, {BATCHES: OffsetRange(0, 1), TopicPartition("t", 0): OffsetRange(0, 1)})
    counted = CountedSources(indices=(0,), plan_id="a", before=None)
    rows = [{"topic": None, "partition": None}, {"topic": "t", "partition": 0}]
    assert sink.apply(rows, entry, replace(plan_of(entry), counted=counted)).rows == 2
    assert sink.applied(entry.query) == heads_of(entry)
