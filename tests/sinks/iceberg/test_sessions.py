"""Which session a ledger is read by, what it must have, and names. Without a JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError, SettingsError
from eo_listener.sinks.iceberg import connection
from eo_listener.sinks.iceberg.names import TableName, is_branch_of, is_branch_of_any, new_branch
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


def test_spark_connect_is_refused() -> None:
    """Its sessions have no JVM to be asked."""
    with pytest.raises(SettingsError, match="Spark Connect"):
        connection.check_runtime(SimpleNamespace(version="4.0.0"))


part = st.text(min_size=1).filter(lambda text: bool(text.strip()))


@settings(max_examples=30)
@given(st.lists(part, min_size=3, max_size=5))
def test_a_quoted_name_comes_back(parts: list[str]) -> None:
    """Whatever is in its parts."""
    name = TableName(tuple(parts))
    assert TableName.parse(name.sql) == name
    assert TableName.parse(name.key) == name


def test_a_plain_name_is_its_key() -> None:
    """And a branch is one more part."""
    name = TableName.parse("lake.db.flights")
    assert name.key == "lake.db.flights"
    assert name.branch("x") == "`lake`.`db`.`flights`.`branch_x`"
    assert name.namespace == "`lake`.`db`"
    assert TableName.parse("lake.`a.b`.c.`d``e`").parts == ("lake", "a.b", "c", "d`e")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("flights", "name the catalog"),
        ("db.flights", "name the catalog"),
        ("", "not a table name"),
        ("lake..flights", "not a table name"),
        ("lake.db.flights.", "not a table name"),
        ("lake.db.`flights", "not a table name"),
        ("lake.db.`fl`ights", "not a table name"),
        ("lake.db.` `", "not a table name"),
    ],
)
def test_what_is_no_full_name_is_refused(name: str, problem: str) -> None:
    """A shorter name would mean another table in another session."""
    with pytest.raises(SettingsError, match=problem):
        TableName.parse(name)


@settings(max_examples=30)
@given(st.text(), st.text(), st.text())
def test_a_branch_tells_its_query(query: str, other: str, run: str) -> None:
    """No two branches have one name, and one of a user's is none of ours."""
    branch = new_branch(query, run)
    assert is_branch_of(query, branch)
    assert is_branch_of_any(branch)
    assert is_branch_of(other, branch) == (other == query)
    assert new_branch(query, run) != branch
    assert not is_branch_of_any("audit")
