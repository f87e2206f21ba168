"""The check of this machine's software."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from eo_listener.errors import UnavailableError
from eo_listener.model.check_finding import to_act_on
from eo_listener.spark import shim
from eo_listener.spark.session import local_check
from eo_listener.spark.session.local_check import check_machine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark 3.5.7 of Scala 2.12, as far as its files tell, and that of the Python package."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "jars" / "spark-sql_2.12-3.5.7.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(local_check, "version", lambda _: "3.5.7")
    return tmp_path


def told() -> dict[str, str]:
    """Return the findings to act on, with their advice."""
    return {finding.what: finding.advice for finding in to_act_on(check_machine())}


def package(home: Path, name: str) -> None:
    settings = f"spark.jars.packages  org.x:y:1,org.apache.spark:{name}\n"
    (home / "conf" / "spark-defaults.conf").write_text(settings)


def test_misfits(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connectors of other Sparks, a shim among Spark's jars, another pyspark, another shim."""
    (home / "jars" / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    (home / "jars" / "eo-listener-shim-0.0.1.jar").touch()
    package(home, "spark-sql-kafka-0-10_2.12:3.4.1")
    monkeypatch.setattr(local_check, "version", lambda _: "4.0.0")
    monkeypatch.setattr(shim, "jar", lambda: Path("eo-listener-shim-0.0.9.jar"))
    every = told()
    assert all(every.values())
    for words, what in zip(
        (
            "pyspark 4.0.0, but Spark 3.5.7",
            "jars is for Spark 4.0.0 (Scala 2.13)",
            "in spark-defaults.conf is for Spark 3.4.1 (Scala 2.12)",
            "among Spark's own jars (eo-listener-shim-0.0.1.jar)",
            "eo-listener-shim-0.0.9.jar",
        ),
        every,
        strict=True,
    ):
        assert words in what


def test_a_fitting_connector(home: Path) -> None:
    """The connector may come by `configure`, lie among the jars, or be a package."""
    assert not told()
    package(home, "spark-sql-kafka-0-10_2.12:3.5.7")
    assert not told()
    (home / "jars" / "spark-sql-kafka-0-10_2.12-3.5.7.jar").touch()
    whats = [finding.what for finding in check_machine()]
    assert sum("connector" in what and what.endswith(" fits") for what in whats) == 2
    assert not told()


def test_missing_parts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SPARK_HOME without Spark, a JAVA_HOME without Java, no shim: nothing is raised."""
    no_jar = UnavailableError("No shim", fix="make jar")
    monkeypatch.setattr(shim, "jar", Mock(side_effect=no_jar))
    (home / "jars" / "spark-sql_2.12-3.5.7.jar").unlink()
    monkeypatch.setenv("JAVA_HOME", str(home))
    every = told()
    for words, what in zip(
        (f"{home} has no Spark", "Java was not found", "No shim"), every, strict=True
    ):
        assert what.startswith(words)
    assert all(every.values())


def test_a_java_that_is_too_old_for_spark_is_reported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that Spark needs is Spark's own affair: 3.5 runs on 11, 4.0 wants 17."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"Java 11 ({java}) fits" in [finding.what for finding in check_machine()]
    monkeypatch.setattr(local_check, "version", lambda _: "4.0.0")
    jars = home / "jars"
    (jars / "spark-sql_2.12-3.5.7.jar").rename(jars / "spark-sql_2.13-4.0.0.jar")
    (every,) = told()
    assert "Spark 4.0.0 needs Java 17" in every
