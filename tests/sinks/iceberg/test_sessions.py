"""Which session a ledger is read by, and what it must have. Without a JVM."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError, SettingsError
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


JAR = "file:/opt/jars/iceberg-spark-runtime-{}-1.11.0.jar"


def check(monkeypatch: pytest.MonkeyPatch, spark: str, scala: str, jar: str | None) -> None:
    monkeypatch.setattr(connection, "runtime_jar", lambda _: jar)
    monkeypatch.setattr(connection, "scala_version", lambda _: scala)
    connection.check_runtime(SimpleNamespace(version=spark, _jvm=None))


@pytest.mark.parametrize(
    ("spark", "scala"), [("3.5.7", "2.12"), ("3.5.7", "2.13"), ("4.0.0", "2.13"), ("4.1.1", "2.13")]
)
def test_the_runtime_that_fits_is_named(
    monkeypatch: pytest.MonkeyPatch, spark: str, scala: str
) -> None:
    """Where there is none, or one for another Spark; the right one is taken, under any name."""
    line = f"{spark[:3]}_{scala}"
    named = f"org.apache.iceberg:iceberg-spark-runtime-{line}:1.11.0"
    with pytest.raises(SettingsError, match="runtime") as missing:
        check(monkeypatch, spark, scala, None)
    assert "configure(SparkSession.builder, iceberg=True)" in str(missing.value.fix)
    assert named in str(missing.value.fix)
    for other, said in (("3.4_2.12", "3.4 with Scala 2.12"), (f"{spark[:3]}_2.11", "Scala 2.11")):
        with pytest.raises(SettingsError, match=f"is for .*{said}, but this is") as wrong:
            check(monkeypatch, spark, scala, JAR.format(other))
        assert named in str(wrong.value.fix)
        assert wrong.value.cause == f"iceberg-spark-runtime-{other}-1.11.0.jar"
    for jar in (JAR.format(line), "", "file:/opt/lake.jar"):
        check(monkeypatch, spark, scala, jar)


@pytest.mark.parametrize(("spark", "scala"), [("4.2.0", "2.13"), ("4.0.0", "2.12")])
def test_a_spark_without_a_runtime(monkeypatch: pytest.MonkeyPatch, spark: str, scala: str) -> None:
    """Nothing is named that does not exist."""
    with pytest.raises(SettingsError) as refused:
        check(monkeypatch, spark, scala, None)
    for fact in (f"Spark {spark}", f"Scala {scala}", "3.5, 4.0 and"):
        assert fact in str(refused.value)
    assert "org.apache.iceberg:" not in str(refused.value)


def test_spark_connect_is_refused() -> None:
    """Its sessions have no JVM to be asked."""
    with pytest.raises(SettingsError, match="Spark Connect"):
        connection.check_runtime(SimpleNamespace(version="4.0.0"))
