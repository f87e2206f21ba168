"""A PostgresSink's check of tables, rights and ledger, which creates nothing."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.check_finding import Severity, to_act_on
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.course import KV, USAGE, Database, put

GIVEN: dict[str, Any] = {"mode": "upsert", "keys": "k", "dead_letters": "bad"}
TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"
)


@pytest.mark.parametrize(
    ("exists", "rights"),
    [
        (False, ["CREATE"]),
        (True, ["INSERT, SELECT, UPDATE", "INSERT", "SELECT, INSERT, UPDATE", "DELETE"]),
    ],
)
def test_who_runs_the_statements_can_write(db: Database, exists: bool, rights: list[str]) -> None:
    """A role without rights, before the first batch, or after another role's."""
    if exists:
        put(db.sink(**GIVEN), KV, (1, 1, 0))
    before, ran = db.ask(TABLES), list[str]()
    with db.role(USAGE) as dsn:
        sink = db.sink(dsn=dsn, **GIVEN)
        while wanted := to_act_on(sink.check(QUERY)):
            assert {finding.level for finding in wanted} == {Severity.PROBLEM}
            ran.append(wanted[0].advice.replace("the role of the dsn", f"role_{db.schema}"))
            db.script(ran[-1])
            assert len(ran) < 9, ran
        assert len(ran) == len(rights)
        assert all(right in statement for right, statement in zip(rights, ran, strict=True))
        assert db.ask(TABLES) == before
        put(sink, KV, (1, 2, 1))
        whats = [finding.what for finding in sink.check(QUERY)]
    assert any(what.startswith(f"the ledger of {QUERY!r} has flights-0 at ") for what in whats)


def test_problems(db: Database) -> None:
    """Missing tables with create=False, an unlogged table, a server that does not answer."""
    (table, ledger) = to_act_on(db.sink(create=False).check())
    assert "create=False" in table.what
    assert "CREATE TABLE" in ledger.advice
    db.script("CREATE UNLOGGED TABLE t (k int)")
    (unlogged,) = to_act_on(db.sink().check())
    db.script(unlogged.advice)
    assert not to_act_on(db.sink().check())
    away = PostgresSink("host=127.0.0.1 port=1 password=hunter2", "t", connect_timeout=2)
    (every,) = away.check()
    assert (every.level, "hunter2" in str(every)) == (Severity.PROBLEM, False)
