"""What preflight finds of real Delta tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.audit.position_finding import Severity
from eo_listener.offsets import OffsetRange
from eo_listener.testing.made_up_entries import QUERY
from tests.cli.commands import run_apart
from tests.sinks.chapters.lake import TablesBeforeTheStart
from tests.sinks.chapters.store import TP
from tests.sinks.delta.store import DeltaStore, store

__all__ = ["store"]

pytestmark = pytest.mark.spark


class TestTablesBeforeTheStart(TablesBeforeTheStart):
    """A table by its path."""


def test_what_others_have_set(store: DeltaStore) -> None:
    """A log that is cleaned soon, and what the sink refuses; what is printed takes each away."""
    assert "in memory" in store.said(Severity.WARNING, "lake.delays")
    store.write({TP: OffsetRange(0, 1)})
    assert "with protocol 1,2" in store.said(Severity.FINE)
    store.set(
        "'delta.logRetentionDuration' = 'interval 1 hour', 'delta.appendOnly' = 'true', "
        "'delta.deletedFileRetentionDuration' = 'interval 1 hour'"
    )
    assert "delta.appendOnly" in store.said(Severity.NOTE)
    (warned,) = (one for one in store.findings() if one.level is Severity.WARNING)
    assert "loses its ledger" in warned.what
    store.run(warned.advice.partition(";")[0])
    assert store.said(Severity.WARNING) == ""
    forgets = "delta.setTransactionRetentionDuration"
    store.set(f"'{forgets}' = 'interval 1 day'")
    (refused,) = (one for one in store.findings() if one.level is Severity.PROBLEM)
    assert f"has {forgets}=interval 1 day" in refused.what
    store.run(refused.advice)
    assert store.said(Severity.PROBLEM) == ""
    assert "s3" in store.said(Severity.PROBLEM, "s3a://bucket/delays").lower()


def test_columns_that_are_mapped(store: DeltaStore) -> None:
    """The sink writes such a table by its names, after a column was renamed too."""
    store.write({TP: OffsetRange(0, 1)})
    store.set(
        "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5'"
    )
    store.run(f"ALTER TABLE {store.table} ADD COLUMNS (other string)")
    store.run(f"ALTER TABLE {store.table} RENAME COLUMN other TO more")
    store.write({TP: OffsetRange(1, 2)}, 1)
    rows = store.spark.sql(f"SELECT offset, word, more FROM {store.table}").collect()
    assert sorted(map(tuple, rows)) == [(0, "run-1", None), (1, "run-1", None)]
    assert {one.level for one in store.findings()} == {Severity.FINE}
    fine = store.said(Severity.FINE)
    assert "delta.columnMapping.mode=name" in fine
    assert f"the ledger of {QUERY!r} has flights-0 at 2" in fine


@pytest.mark.slow
def test_the_command_by_itself(store: DeltaStore, tmp_path: Path) -> None:
    """By one line, before the first batch and after it; it leaves nothing."""
    folder = tmp_path / "here"
    folder.mkdir()
    command = ("preflight", "--sink-table", store.address, "--sink-query", QUERY, *store.words)
    code, document = run_apart(folder, *command)
    assert code == 0, document
    assert not store.path.exists()
    store.write({TP: OffsetRange(0, 1)})
    code, document = run_apart(folder, *command)
    assert code == 0, document
    whats = [one["what"] for one in document["findings"]]
    assert f"the ledger of {QUERY!r} has flights-0 at 1" in whats
    assert {one.name for one in folder.iterdir()} <= {"artifacts"}  # Spark 4.0's own, empty
