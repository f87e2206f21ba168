"""A session without Iceberg, or with that of another Spark: what is said before anything runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.iceberg import connection

JAR = "file:/opt/jars/iceberg-spark-runtime-{}-1.11.0.jar"


def check(monkeypatch: pytest.MonkeyPatch, spark: str, jar: str | None) -> None:
    monkeypatch.setattr(connection, "runtime_jar", lambda _: jar)
    connection.check_runtime(SimpleNamespace(version=spark, _jvm=None))


@pytest.mark.parametrize(
    ("spark", "line"), [("3.5.7", "3.5_2.12"), ("4.0.0", "4.0_2.13"), ("4.1.1", "4.1_2.13")]
)
def test_the_runtime_that_fits_is_named(
    monkeypatch: pytest.MonkeyPatch, spark: str, line: str
) -> None:
    """Where there is none, or one for another Spark; the right one is taken, under any name."""
    named = f"org.apache.iceberg:iceberg-spark-runtime-{line}:1.11.0"
    with pytest.raises(SettingsError, match="its runtime jar was not given") as missing:
        check(monkeypatch, spark, None)
    assert named in str(missing.value.fix)
    with pytest.raises(SettingsError, match=r"is one for Spark 3\.4, and this is") as wrong:
        check(monkeypatch, spark, JAR.format("3.4_2.12"))
    assert named in str(wrong.value.fix)
    assert wrong.value.cause == "iceberg-spark-runtime-3.4_2.12-1.11.0.jar"
    for jar in (JAR.format(line), "", "file:/opt/lake.jar"):
        check(monkeypatch, spark, jar)


def test_a_spark_without_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is named that does not exist."""
    with pytest.raises(SettingsError) as refused:
        check(monkeypatch, "4.2.0", None)
    assert "no Iceberg runtime for Spark 4.2: take a Spark of 3.5, 4.0, 4.1" in str(refused.value)


def test_spark_connect_is_refused() -> None:
    """Its sessions have no JVM to be asked."""
    with pytest.raises(SettingsError, match="which Spark Connect does not give"):
        connection.check_runtime(SimpleNamespace(version="4.0.0"))
