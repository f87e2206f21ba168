"""Which session a ledger is read by, where there are several. Without a JVM."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import JvmError, SettingsError
from eo_listener.sinks.iceberg import IcebergSink, connection, sink
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.spark.jvm import iceberg_table

CATALOG = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}


def some(**conf: str) -> Any:
    return SimpleNamespace(conf=conf, version="4.0.0", _jvm=None)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """That of the thread and the first of the process, None where there is none."""
    there: dict[str, Any] = {"active": None, "first": None}
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: there["active"])
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)

    def set_first(one: Any) -> None:
        monkeypatch.setattr(SparkSession, "_instantiatedSession", one)

    there["set_first"] = set_first
    return there


def test_the_session_with_the_catalog_is_asked(sessions: dict[str, Any]) -> None:
    """That of the thread, else that of the query, else the first: one that has the catalog."""
    mine, query, first, none = (some(**CATALOG) for _ in range(4))
    none.conf = {}
    sessions["active"] = mine
    sessions["set_first"](first)
    assert iceberg_table.session("lake", query) is mine
    sessions["active"] = none
    assert iceberg_table.session("lake", query) is query
    assert iceberg_table.session("lake") is first
    assert iceberg_table.session("other", query) is none
    sessions["active"] = None
    assert iceberg_table.session("lake", query) is query


def test_without_a_session_it_is_said(sessions: dict[str, Any]) -> None:
    """And how one is made."""
    with pytest.raises(JvmError):
        iceberg_table.session("lake")
    assert sessions["active"] is None


def test_a_batch_brings_the_session(
    sessions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read later, in a thread of another session, is read by that of the query."""
    asked: list[Any] = []

    def find(session: Any, _: TableName) -> None:
        asked.append(session)
        raise SettingsError("enough", fix="")

    monkeypatch.setattr(sink, "find", find)
    query, other = some(**CATALOG), some()
    table = IcebergSink("lake.db.t")
    frame = SimpleNamespace(sparkSession=query)
    with pytest.raises(SettingsError):
        table.apply(frame, None, None)  # type: ignore[arg-type]
    sessions["active"] = other
    for again in (table, copy.copy(table)):
        with pytest.raises(SettingsError):
            again.applied("flights")
    assert asked == [query, query, other]


def test_a_catalog_that_no_session_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said which were asked, and how all of them get it."""
    monkeypatch.setattr(connection, "check_runtime", lambda _: None)
    monkeypatch.setattr(iceberg_table.IcebergTable, "load", lambda *_: None)
    monkeypatch.setattr(connection, "_has_catalog", lambda *_: False)
    with pytest.raises(SettingsError, match="catalog 'lake'") as refused:
        connection.find(some(), TableName.parse("lake.db.t"))
    for fact in ("query", "thread", "process"):
        assert fact in str(refused.value.cause)
