"""DeltaSink is a sink as every other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.sinks.delta import DeltaSink
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import Row
from tests.sinks.chapters.store import frame_of

pytestmark = [pytest.mark.spark]


class TestDeltaSink(SinkConformance):
    """With a table for each target, by its path."""

    fault_points: Sequence[str] = ("sink.begun", "sink.commit-sent")
    shared_ledger = False

    @pytest.fixture(autouse=True)
    def _store(self, delta: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
        self.spark = delta
        self.folder = tmp_path
        monkeypatch.setattr("eo_listener.spark.jvm.delta_log.session_here", lambda: delta)

    def path(self, target: str) -> str:
        """Names of folders are data too, but for what Hadoop refuses."""
        return str(self.folder / f"it's 100% {target.encode().hex()[:40]}")

    def open_sink(self, target: str) -> DeltaSink:
        return DeltaSink(path=self.path(target))

    def read_rows(self, target: str) -> list[Row]:
        path = self.path(target)
        if not Path(path, "_delta_log").exists():
            return []
        found = self.spark.read.format("delta").load(path).collect()
        return [(one.topic, one.partition, one.offset, one.word) for one in found]

    @pytest.mark.slow
    def test_names_are_data(self) -> None:
        """As for every store; each name has a table of its own, which takes long to make."""
        super().test_names_are_data()

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return frame_of(self.spark, rows)
