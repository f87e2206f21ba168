"""`configure` with real JVMs, each in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eo_listener.spark.session.configure import HADOOP
from eo_listener.spark.session.installation import Installation
from tests import artifacts
from tests.bridge.submitted import ROOT, run
from tests.broker import Broker
from tests.topics import Topics

pytestmark = pytest.mark.spark

SPARK = Installation.find()

TOO_LATE = """
from pyspark.sql import SparkSession
from eo_listener.errors import JvmAlreadyRunningError
from eo_listener.spark.session.configure import configure
try:
    configure(SparkSession.builder)
except JvmAlreadyRunningError as error:
    print("REFUSED", error)
else:
    print("ACCEPTED")
"""

LIVE = """
import os
from tests.spark_session import builder, new_session
from eo_listener.spark.session.configure import configure
spark = new_session()
arguments = os.environ["PYSPARK_SUBMIT_ARGS"]
for state in ("live", "stopped"):
    again = builder()
    options = dict(again._options)
    configure(again)
    assert again._options == options
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == arguments
    print("ACCEPTED", state)
    spark.stop()
"""

EXECUTORS = """
import sys
from tests.spark_session import new_session
spark = new_session({"spark.master": "local-cluster[1,1,1024]", "spark.executor.memory": "1g"})
jars = spark.sparkContext._jsc.sc().listJars().mkString(" ")
print("SHIM", "eo-listener-shim" in jars, "CONNECTOR", "spark-sql-kafka" in jars)
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
print("COUNT", spark.read.format("kafka").options(**options).load().count())
spark.stop()
"""

HALF_FILLED = """
from tests.spark_session import new_session
spark = new_session()
print("STARTED", "spark-sql-kafka" in spark.sparkContext._jsc.sc().listJars().mkString(" "))
spark.stop()
"""


def lines(words: list[str], start: str | tuple[str, ...], **environment: str) -> list[str]:
    """Run a program from the project's folder, and return what it printed that begins so."""
    output = run(words, ROOT, **environment).stdout
    return [line for line in output.splitlines() if line.startswith(start)]


def test_under_spark_submit(tmp_path: Path) -> None:
    """Under spark-submit it is too late, and the error is the line to type instead."""
    job = tmp_path / "job.py"
    job.write_text(TOO_LATE)
    (line,) = lines([str(SPARK.home / "bin" / "spark-submit"), str(job)], "REFUSED")
    command = line.rpartition("spark-submit ")[2]
    given = f"--packages {SPARK.connector} --exclude-packages {','.join(HADOOP)} {job}"
    assert command == f'--jars "$(eo-listener jar)" {given}'


def test_live_session_with_all() -> None:
    """Beside a session that has all, live or stopped, nothing is changed."""
    assert lines([sys.executable, "-c", LIVE], "ACCEPTED") == ["ACCEPTED live", "ACCEPTED stopped"]


@pytest.mark.slow
@pytest.mark.kafka
def test_executors_of_a_cluster(broker: Broker) -> None:
    """Executors in other processes have the connector and the shim."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create()
    topics.fill(topic, 20)
    printed = lines([sys.executable, "-c", EXECUTORS, topics.servers, topic], ("SHIM", "COUNT"))
    assert printed == ["SHIM True CONNECTOR True", "COUNT 20"]


@pytest.mark.slow
def test_half_filled_local_repository(tmp_path: Path) -> None:
    """A pom without its jar in ~/.m2, on which Spark's own resolution fails, does no harm."""
    group, name, version = SPARK.connector.split(":")
    folder = tmp_path / ".m2" / "repository" / group.replace(".", "/") / name / version
    folder.mkdir(parents=True)
    (folder / f"{name}-{version}.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "</project>"
    )
    other = {"HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path}"}
    other["EO_LISTENER_CACHE"] = str(artifacts.cache_folder())
    assert lines([sys.executable, "-c", HALF_FILLED], "STARTED", **other) == ["STARTED True"]
