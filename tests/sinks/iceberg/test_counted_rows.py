"""The rows of an Iceberg table, counted by source offset."""

from __future__ import annotations

import pytest

from eo_listener.model.ledger import Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, Heads, Row
from tests.broker import Broker
from tests.sinks import counted_rows
from tests.sinks.iceberg.lake import Lake


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_a_lost_and_a_doubled_row_are_named(
    lake: Lake,
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With their offsets; before, nothing was, though the query began in mid-stream."""
    monkeypatch.setattr(LocalSpark, "session", lambda _: lake.spark)
    sink = lake.sink("t")

    def write(rows: list[Row], entry: Entry, plan: PlannedBatch) -> Heads:
        sink.apply(lake.frame(rows), entry, plan)
        return sink.applied(QUERY)

    table = lake.table("t")
    counted_rows.count(
        capsys, broker.bootstrap_servers, f"iceberg:{table}", lake.other(), table, write
    )
