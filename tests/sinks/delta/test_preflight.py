"""What preflight finds of real Delta tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.preflight.findings import CheckFinding, Level
from eo_listener.preflight.table_checks import judge_delta
from eo_listener.preflight.table_facts import DELTA, TablePlan
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.table_describer import describe
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests import delta_lake
from tests.cli.commands import run_apart

TP = TopicPartition("flights", 0)
Asking = Callable[..., list[CheckFinding]]


@pytest.fixture
def asking(delta: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """What is found of a table, by the session of the tests."""
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    monkeypatch.setattr(LocalSpark, "session", lambda _: delta)

    def ask(table: object, **given: Any) -> list[CheckFinding]:
        plan = TablePlan(kind=DELTA, name=str(table), **{"query": QUERY, **given})
        return list(judge_delta(plan, describe(plan, LocalSpark({}))))

    return ask


def write(delta: SparkSession, path: Path, number: int = 0) -> None:
    """Batch `number`, of one row, as a query writes it."""
    sink = DeltaSink(path=str(path))
    heads = sink.applied(QUERY) if number else {}
    entry = entry_of(heads, {TP: OffsetRange(number, number + 1)}, batch_id=number)
    frame = delta.sql(f"SELECT 'flights' topic, 0 partition, {number}L offset, 'a' word")
    sink.apply(frame, entry, plan_of(entry))


def said(findings: list[CheckFinding], level: Level) -> str:
    return "; ".join(f"{one.what} -> {one.advice}" for one in findings if one.level is level)


@pytest.mark.spark
def test_before_the_first_batch_and_after_it(
    delta: SparkSession, asking: Asking, tmp_path: Path
) -> None:
    """The table is not there and nothing makes it; then its protocol, rights and ledger."""
    path = tmp_path / "delays"
    fine = said(asking(path), Level.FINE)
    assert "the first batch makes it" in fine
    assert f"may write to {tmp_path}" in fine
    assert not path.exists()
    assert "create=False" in said(asking(path, create=False), Level.PROBLEM)
    assert "in memory" in said(asking("lake.delays"), Level.WARNING)
    write(delta, path)
    found = asking(path)
    assert {one.level for one in found} == {Level.FINE}
    fine = said(found, Level.FINE)
    assert "it is there, with protocol 1,2" in fine
    assert f"may write to {path}" in fine
    assert f"the ledger of {QUERY!r} has flights-0 at 1" in fine
    assert f"no ledger of 'p', but of {QUERY!r}" in said(asking(path, query="p"), Level.NOTE)


@pytest.mark.spark
def test_what_others_have_set(delta: SparkSession, asking: Asking, tmp_path: Path) -> None:
    """A log that is cleaned soon, and what the sink refuses; what is printed takes each away."""
    path = tmp_path / "delays"
    write(delta, path)
    delta.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES "
        "('delta.logRetentionDuration' = 'interval 1 hour', 'delta.appendOnly' = 'true', "
        "'delta.deletedFileRetentionDuration' = 'interval 1 hour')"
    )
    found = asking(path)
    assert "an upsert that changes a row fails" in said(found, Level.NOTE)
    (warned,) = (one for one in found if one.level is Level.WARNING)
    assert "loses its ledger" in warned.what
    delta.sql(warned.advice.partition(";")[0])
    assert said(asking(path), Level.WARNING) == ""
    forgets = "delta.setTransactionRetentionDuration"
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{forgets}' = 'interval 1 day')")
    (refused,) = (one for one in asking(path) if one.level is Level.PROBLEM)
    assert f"has {forgets}=interval 1 day" in refused.what
    delta.sql(refused.advice)
    assert said(asking(path), Level.PROBLEM) == ""
    assert "S3" in said(asking("s3a://bucket/delays"), Level.PROBLEM) or "s3a" in said(
        asking("s3a://bucket/delays"), Level.PROBLEM
    )


@pytest.mark.spark
def test_columns_that_are_mapped(delta: SparkSession, asking: Asking, tmp_path: Path) -> None:
    """The sink writes such a table by its names, after a column was renamed too."""
    path = tmp_path / "delays"
    write(delta, path)
    delta.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    delta.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (other string)")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN other TO more")
    write(delta, path, 1)
    rows = delta.read.format("delta").load(str(path)).select("offset", "word", "more").collect()
    assert sorted(map(tuple, rows)) == [(0, "a", None), (1, "a", None)]
    found = asking(path)
    assert {one.level for one in found} == {Level.FINE}
    assert "delta.columnMapping.mode=name" in said(found, Level.FINE)
    assert f"the ledger of {QUERY!r} has flights-0 at 2" in said(found, Level.FINE)


@pytest.mark.spark
def test_a_restore(delta: SparkSession, asking: Asking, tmp_path: Path) -> None:
    """The ledger was taken back: a problem, with the command that undoes it."""
    path = tmp_path / "delays"
    for number in range(2):
        write(delta, path, number)
    delta.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    found = said(asking(path), Level.PROBLEM)
    assert "restored the table to version 1" in found
    assert "RESTORE TABLE delta.`" in found


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_by_itself(delta: SparkSession, tmp_path: Path) -> None:
    """By one line, before the first batch and after it; it leaves nothing."""
    path, folder = tmp_path / "delays", tmp_path / "here"
    folder.mkdir()
    jars = ",".join(map(str, delta_lake.jars()))
    given = ("--sink-query", QUERY, "--spark-conf", f"spark.jars={jars}")
    command = ("preflight", "--sink-table", f"delta:{path}", *given)
    code, document = run_apart(folder, *command)
    assert code == 0, document
    assert not path.exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_log, "session_here", lambda: delta)
        write(delta, path)
    code, document = run_apart(folder, *command)
    assert code == 0, document
    whats = [one["what"] for one in document["findings"]]
    assert f"the ledger of {QUERY!r} has flights-0 at 1" in whats
    assert {one.name for one in folder.iterdir()} <= {"artifacts"}  # Spark 4.0's own, empty
