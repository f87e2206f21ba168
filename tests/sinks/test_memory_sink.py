"""The sink in memory is a sink like any other, and the suite for sinks fails where one is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from eo_listener.model.planned_batch import BATCHES, CountedSources
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink, MemoryStore
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import Row, entry_of, heads_of, plan_of
from tests.sinks.broken import BUGS, Broken


class TestMemorySink(SinkConformance):
    """MemorySink passes the suite."""

    kind: type[MemorySink] = MemorySink

    @pytest.fixture(autouse=True)
    def _store(self) -> None:
        self.store = MemoryStore()

    def open_sink(self, target: str) -> MemorySink:
        return self.kind(self.store, key=target)

    def read_rows(self, target: str) -> list[Row]:
        return list(self.store.rows.get(target, []))

    def make_frame(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows


def failures(kind: type[Broken]) -> Iterator[str]:
    for name in dir(SinkConformance):
        if name.startswith("test_"):
            suite = TestMemorySink()
            suite.kind, suite.store = kind, MemoryStore(lock_timeout=0.2)
            try:
                getattr(suite, name)()
            except Exception:  # noqa: BLE001  # any failure of a test is one
                yield name


def test_a_right_sink_passes() -> None:
    """Where nothing is broken nothing fails, so what fails is the bug."""
    assert not list(failures(Broken))


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_caught(bug: type[Broken]) -> None:
    """At least one test of the suite fails on each sink that is wrong."""
    assert next(failures(bug), None) is not None


def test_a_batch_of_counted_sources_too_is_one_transaction() -> None:
    """Rows of a file belong to no partition; of a sink with a transaction for each none is lost."""
    sink = MemorySink(per_partition=True)
    entry = entry_of({}, {BATCHES: OffsetRange(0, 1), TopicPartition("t", 0): OffsetRange(0, 1)})
    counted = CountedSources(indices=(0,), plan_id="a", before=None)
    rows = [{"topic": None, "partition": None}, {"topic": "t", "partition": 0}]
    assert sink.apply(rows, entry, replace(plan_of(entry), counted=counted)).rows == 2
    assert sink.applied(entry.query) == heads_of(entry)
