"""Which Spark is found, for its Ivy and for its jars alike."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from eo_listener.spark.session import installation
from eo_listener.spark.session.installation import Installation
from tests.artifacts.ivy import ivy_jar

SPARK_SQL = "spark-sql_2.13-4.0.99.jar"


def make_spark(home: Path, *jars: str) -> Path:
    (home / "jars").mkdir(parents=True)
    for jar in jars:
        (home / "jars" / jar).touch()
    return home


def test_spark_home_comes_before_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What SPARK_HOME names is taken by all who look for Spark."""
    home = make_spark(tmp_path / "spark", SPARK_SQL, "ivy-2.5.99.jar")
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert installation.spark_homes()[0] == home
    assert Installation.find().home == home
    assert ivy_jar() == home / "jars" / "ivy-2.5.99.jar"


def test_a_spark_without_ivy_leaves_it_to_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ivy only downloads, so any will do; the session is still that of SPARK_HOME."""
    home = make_spark(tmp_path / "spark", SPARK_SQL)
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert Installation.find().home == home
    assert home not in ivy_jar().parents


def test_without_either_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable names nothing, and pyspark may not be installed."""
    monkeypatch.setenv("SPARK_HOME", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert installation.spark_homes() == ()


def test_pyspark_is_found_without_importing_it() -> None:
    """Looking for it costs no second and runs nothing of it."""
    program = (
        "import sys; from eo_listener.spark.session import installation as i; "
        "assert i.spark_homes();"
        "sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
