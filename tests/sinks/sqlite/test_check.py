"""A SqliteSink's check of its file, tables and ledger, which creates nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.model.check_finding import Severity, to_act_on
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.sqlite.database import numbers, script, write


def test_before_the_first_batch_and_after_it(path: Path) -> None:
    """The check creates no file; later it names the table and the ledger's offsets."""
    sink = SqliteSink(path, "t")
    assert not to_act_on(sink.check(QUERY))
    assert not path.exists()
    write(sink, numbers(3))
    sink.close()
    whats = [finding.what for finding in sink.check(QUERY)]
    assert "it exists" in whats
    assert any(what.startswith(f"the ledger of {QUERY!r} has flights-0 at ") for what in whats)
    (other,) = (finding for finding in sink.check("p") if finding.level is Severity.NOTE)
    assert f"no ledger of 'p', but of {QUERY!r}" in other.what
    assert "it has no ledger yet" in str(SqliteSink(path, "u").check(QUERY))  # a sink's own


def test_problems(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing folder, missing tables with create=False, a file that is read-only."""
    (every,) = SqliteSink(path / "x.db", "t").check()
    assert (every.level, str(path) in every.advice) == (Severity.PROBLEM, True)
    (every,) = SqliteSink(path, "t", create=False).check()
    assert "create=False" in every.what
    script(path, "CREATE TABLE other (v)")
    table, ledger = to_act_on(SqliteSink(path, "t", create=False).check())
    assert (table.about, "no ledger" in ledger.what) == ("table t", True)
    monkeypatch.setattr("os.access", lambda *_: False)
    levels = [finding.level for finding in SqliteSink(path, "t").check()]
    assert levels[:2] == [Severity.PROBLEM] * 2  # the folder, and the file
