"""What is installed here is found in files, without starting Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from eo_listener.preflight.findings import to_act_on
from eo_listener.preflight.local_checks import judge_local
from eo_listener.spark.session.local_facts import read_local_facts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark 3.5.7 of Scala 2.12, as far as its files tell."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "jars" / "spark-sql_2.12-3.5.7.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def test_jars_and_settings_that_do_not_fit_are_found(home: Path) -> None:
    """Connectors of other Sparks, among the jars and in spark-defaults.conf; a shim there."""
    (home / "jars" / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    (home / "jars" / "eo-listener-shim-0.0.1.jar").touch()
    (home / "conf" / "spark-defaults.conf").write_text(
        "spark.jars.packages  org.x:y:1,org.apache.spark:spark-sql-kafka-0-10_2.12:3.4.1\n"
    )
    facts = read_local_facts()
    assert (facts.spark, facts.scala, facts.home) == ("3.5.7", "2.12", str(home))
    assert facts.packages == ("spark-sql-kafka-0-10_2.12:3.4.1",)
    told = [one.what for one in to_act_on(judge_local(facts))]
    for words in (
        "among Spark's jars is of Spark 4.0.0 (Scala 2.13)",
        "in spark-defaults.conf is of Spark 3.4.1 (Scala 2.12)",
        "a shim lies among Spark's own jars (eo-listener-shim-0.0.1.jar)",
    ):
        assert any(words in what for what in told), told


def test_what_is_missing_is_a_fact_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SPARK_HOME without Spark and a JAVA_HOME without Java are reported, and raise nothing."""
    (home / "jars" / "spark-sql_2.12-3.5.7.jar").unlink()
    monkeypatch.setenv("JAVA_HOME", str(home))
    facts = read_local_facts()
    told = {one.what.partition(":")[0]: one.advice for one in to_act_on(judge_local(facts))}
    assert any(what.startswith(f"There is no Spark in {home}") for what in told)
    assert any(what.startswith("Java was not found") for what in told)
    assert all(told.values())


def test_a_java_that_is_too_old_for_spark_is_reported(home: Path, tmp_path: Path) -> None:
    """The version that Spark needs is Spark's own affair: 3.5 runs on 11, 4.0 wants 17."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(tmp_path))
        assert read_local_facts().java == f"11 ({java})"
        (home / "jars" / "spark-sql_2.12-3.5.7.jar").rename(
            home / "jars" / "spark-sql_2.13-4.0.0.jar"
        )
        error = read_local_facts().java_error
    assert error is not None
    assert "Spark 4.0.0 needs Java 17" in error.problem
