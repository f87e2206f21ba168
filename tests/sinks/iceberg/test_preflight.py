"""What preflight finds of real Iceberg tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eo_listener.audit.position_finding import Severity
from eo_listener.offsets import OffsetRange
from eo_listener.testing.made_up_entries import QUERY
from tests import iceberg_jars
from tests.cli.commands import run_apart
from tests.sinks.chapters.lake import TablesBeforeTheStart
from tests.sinks.chapters.store import TP
from tests.sinks.iceberg.lake import catalog_conf
from tests.sinks.iceberg.store import IcebergStore, spark_words, store

__all__ = ["store"]

pytestmark = pytest.mark.spark


class TestTablesBeforeTheStart(TablesBeforeTheStart):
    """A table in a catalog."""


def test_a_catalog_and_what_others_have_set(
    store: IcebergStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An age of the branch that has the ledger; the statement that is printed takes it away."""
    assert "in format 2" in store.said(Severity.FINE)
    assert "CREATE NAMESPACE lake.nosuch" in store.said(Severity.PROBLEM, "lake.nosuch.t")
    assert "no catalog 'nosuch'" in store.said(Severity.PROBLEM, "nosuch.db.t")
    store.write({TP: OffsetRange(0, 3)})
    fine = store.said(Severity.FINE)
    assert f"Iceberg {iceberg_jars.VERSION} can fast-forward branches" in fine
    assert "in format 2 (jdbc catalog)" in fine
    assert f"may write to {store.lake.folder}/files" in fine
    assert "ledger" not in store.said(Severity.FINE, letters=True)
    java = store.lake.java("t")
    java._table.updateProperties().set("history.expire.max-ref-age-ms", "1000").commit()
    assert store.said(Severity.PROBLEM) == ""  # the sink's branches have an age of their own
    (branch,) = store.branches()
    java._table.manageSnapshots().setMaxRefAgeMs(branch, 1000).commit()
    (found,) = (one for one in store.findings() if one.level is Severity.PROBLEM)
    assert branch in found.what
    assert (
        f"BRANCH {branch} AS OF VERSION {java.branches[branch]} RETAIN 36500 DAYS" in found.advice
    )
    store.run(found.advice)
    assert store.said(Severity.PROBLEM) == ""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"may not write to {store.lake.folder}/files" in store.said(Severity.PROBLEM)


@pytest.mark.slow
def test_the_command_by_itself(store: IcebergStore, tmp_path: Path) -> None:
    """By one line, with the query's settings: before the catalog is there, and after a batch."""
    store.write({TP: OffsetRange(0, 3)})
    lake = store.lake

    def ask(table: str, folder: Path) -> tuple[int, dict[str, tuple[str, str]]]:
        sink = ("--sink-table", f"iceberg:{table}", "--sink-query", QUERY)
        dead = ("--sink-dead-letters", lake.table("bad"))
        command = ("preflight", *sink, *dead, *spark_words(catalog_conf(lake.name, folder)))
        code, document = run_apart(tmp_path, *command)
        return code, {one["what"]: (one["level"], one["advice"]) for one in document["findings"]}

    code, found = ask(store.table, lake.folder)
    assert code == 0, found
    assert f"the ledger of {QUERY!r} has flights-0 at 3" in found
    assert ("fine", "") in [found[what] for what in found if "does not exist" in what]
    code, found = ask("lake.db.t", tmp_path / "none")
    assert code == 0
    assert ("note", f"CREATE NAMESPACE {lake.name}.{lake.namespace}") in found.values()
    assert {one.name for one in tmp_path.iterdir()} <= {"artifacts"}  # Spark 4.0's own, empty
