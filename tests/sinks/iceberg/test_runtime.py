"""A session without Iceberg, or with that of another Spark: what is said before anything runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.iceberg import connection

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
        with pytest.raises(SettingsError, match=f"is one for .*{said}, and this is") as wrong:
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
