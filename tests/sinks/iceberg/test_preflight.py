"""What preflight finds of real Iceberg tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.preflight.findings import CheckFinding, Level
from eo_listener.preflight.table_checks import judge_iceberg
from eo_listener.preflight.table_facts import ICEBERG, TablePlan
from eo_listener.sinks.iceberg.table_describer import describe
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of, rows_of
from tests import iceberg_jars
from tests.cli.commands import run_apart
from tests.sinks.iceberg.lake import Lake, catalog_conf

TP = TopicPartition("flights", 0)
Asking = Callable[..., list[CheckFinding]]


@pytest.fixture
def asking(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """What is found of a table, by a session of its own in the JVM of the tests."""

    def ask(table: str, **given: Any) -> list[CheckFinding]:
        session = lake.other()
        monkeypatch.setattr(LocalSpark, "session", lambda _: session)
        plan = TablePlan(kind=ICEBERG, name=table, **{"query": QUERY, **given})
        return list(judge_iceberg(plan, describe(plan, LocalSpark({}))))

    return ask


def write(lake: Lake, table: str = "t") -> None:
    """One batch, as a query writes it."""
    sink = lake.sink(table)
    entry = entry_of(sink.applied(QUERY), {TP: OffsetRange(0, 3)}, batch_id=0)
    sink.apply(lake.frame(rows_of(entry)), entry, plan_of(entry))


def said(findings: list[CheckFinding], level: Level) -> str:
    return "; ".join(f"{one.what} -> {one.advice}" for one in findings if one.level is level)


@pytest.mark.spark
def test_before_the_first_batch_and_after_it(lake: Lake, asking: Asking) -> None:
    """The table is not there and nothing makes it; then its format, rights and ledger are said."""
    table = lake.table("t")
    assert "the first batch makes it, in format 2" in said(asking(table), Level.FINE)
    assert not lake.spark.catalog.tableExists(table)
    assert "CREATE NAMESPACE lake.nosuch" in said(asking("lake.nosuch.t"), Level.PROBLEM)
    assert "no catalog 'nosuch'" in said(asking("nosuch.db.t"), Level.PROBLEM)
    assert "create=False" in said(asking(table, create=False), Level.PROBLEM)
    write(lake)
    before = lake.java("t").version
    found = asking(table)
    assert lake.java("t").version == before
    assert {one.level for one in found} == {Level.FINE, Level.NOTE}
    fine = said(found, Level.FINE)
    assert f"Iceberg {iceberg_jars.VERSION} can move branches on" in fine
    assert "it is there, in format 2 (jdbc catalog)" in fine
    assert f"may write to {lake.folder}/files" in fine
    assert f"the ledger of {QUERY!r} has flights-0 at 3" in fine
    assert "ledger" not in said(asking(table, letters=True), Level.FINE)
    assert f"no ledger of 'p', but of {QUERY!r}" in said(asking(table, query="p"), Level.NOTE)


@pytest.mark.spark
def test_what_others_have_set(lake: Lake, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """An age of the branch that has the ledger; the statement that is printed takes it away."""
    write(lake)
    table, java = lake.table("t"), lake.java("t")
    java._table.updateProperties().set("history.expire.max-ref-age-ms", "1000").commit()
    assert said(asking(table), Level.PROBLEM) == ""  # the sink's branches have an age of their own
    (branch,) = (name for name in java.branches if name.startswith("eo_"))
    java._table.manageSnapshots().setMaxRefAgeMs(branch, 1000).commit()
    (found,) = (one for one in asking(table) if one.level is Level.PROBLEM)
    assert f"branch {branch}, which keeps a ledger, was given an age" in found.what
    assert (
        f"BRANCH {branch} AS OF VERSION {java.branches[branch]} RETAIN 36500 DAYS" in found.advice
    )
    jvm: Any = lake.spark._jvm
    jvm.org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions().apply(
        lake.spark._jsparkSession.extensions()
    )
    lake.other().sql(found.advice)
    assert said(asking(table), Level.PROBLEM) == ""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"may not write to {lake.folder}/files" in said(asking(table), Level.PROBLEM)


@pytest.mark.spark
def test_a_rollback(lake: Lake, asking: Asking) -> None:
    """The ledger was taken back: a problem, with the command that undoes it."""
    write(lake)
    before = lake.java("t").main
    sink = lake.sink("t")
    entry = entry_of(sink.applied(QUERY), {TP: OffsetRange(3, 5)}, batch_id=1)
    sink.apply(lake.frame(rows_of(entry)), entry, plan_of(entry))
    lake.java("t")._table.manageSnapshots().rollbackTo(before).commit()
    found = said(asking(lake.table("t")), Level.PROBLEM)
    assert "main was rolled back" in found
    assert "CALL `lake`.system.fast_forward" in found


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_by_itself(lake: Lake, tmp_path: Path) -> None:
    """By one line, with the query's settings: before the catalog is there, and after a batch."""
    write(lake)
    jars = {"spark.jars": ",".join(map(str, iceberg_jars.jars()))}

    def ask(table: str, folder: Path) -> tuple[int, dict[str, tuple[str, str]]]:
        settings = {**jars, **catalog_conf(lake.name, folder)}
        given = [word for one in settings.items() for word in ("--spark-conf", "=".join(one))]
        sink = ("--sink-table", f"iceberg:{table}", "--sink-query", QUERY)
        dead = ("--sink-dead-letters", lake.table("bad"))
        command = ("preflight", *sink, *dead, *given)
        code, document = run_apart(tmp_path, *command)
        return code, {one["what"]: (one["level"], one["advice"]) for one in document["findings"]}

    code, found = ask(lake.table("t"), lake.folder)
    assert code == 0, found
    assert f"the ledger of {QUERY!r} has flights-0 at 3" in found
    assert found["it is not there: the first batch makes it, in format 2"] == ("fine", "")
    code, found = ask("lake.db.t", tmp_path / "none")
    assert code == 0
    assert ("note", f"CREATE NAMESPACE {lake.name}.{lake.namespace}") in found.values()
    assert {one.name for one in tmp_path.iterdir()} <= {"artifacts"}  # Spark 4.0's own, empty
