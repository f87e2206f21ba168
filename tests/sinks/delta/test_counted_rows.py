"""The rows of a Delta table, counted by source offset."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.ledger import Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.delta import DeltaSink
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import FRAME, QUERY, Heads, Row
from tests.broker import Broker
from tests.sinks import counted_rows


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_a_lost_and_a_doubled_row_are_named(
    delta: SparkSession,
    broker: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With their offsets; before, nothing was, though the query began in mid-stream."""
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    monkeypatch.setattr(LocalSpark, "session", lambda _: delta)
    path = tmp_path / "delays"
    sink = DeltaSink(path=str(path))

    def write(rows: list[Row], entry: Entry, plan: PlannedBatch) -> Heads:
        sink.apply(delta.createDataFrame(rows, FRAME), entry, plan)
        return sink.applied(QUERY)

    counted_rows.count(
        capsys, broker.bootstrap_servers, f"delta:{path}", delta, f"delta.`{path}`", write
    )
