"""Spark Declarative Pipelines: `spark-pipelines run`, with the listener by configuration alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from eo_listener.spark.session.installation import Installation
from tests.bridge.submitted import run, settings
from tests.broker import Broker
from tests.groups import described
from tests.topics import Topics, unique

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark.pipelines") is None,
        reason="this pyspark has no Declarative Pipelines: they came with Spark 4.1",
    ),
]

SPEC = """
name: words
storage: {folder}/storage
libraries:
  - glob:
      include: transformations/**
"""

FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


def read(topic, group):
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "{servers}")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.consumer.commit.groupid", group)
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
    )


@dp.table
def words():
    return read("{one}", "{group}-table")


dp.create_streaming_table("both")


@dp.append_flow(target="both")
def first():
    return read("{one}", "{group}-first")


@dp.append_flow(target="both")
def second():
    return read("{other}", "{group}-second")


dp.create_sink("out", "kafka", {{"kafka.bootstrap.servers": "{servers}", "topic": "{out}"}})


@dp.append_flow(target="out")
def copied():
    return read("{other}", "{group}-sink")
"""


def test_every_flow_is_committed(broker: Broker, tmp_path: Path) -> None:
    """Tables, append flows and Kafka sinks end at lag 0, each for the group of its own source."""
    topics = Topics(broker.bootstrap_servers)
    one, other, out, group = topics.create(), topics.create(), topics.create(), unique("g")
    topics.fill(one, 100)
    topics.fill(other, 50)
    names = {"servers": broker.bootstrap_servers, "one": one, "other": other, "out": out}
    for name in ("conf", "transformations", "storage"):
        (tmp_path / name).mkdir()
    conf = settings({"spark.eo.python": sys.executable})
    del conf["spark.master"]  # spark-pipelines sets a remote, and refuses both
    defaults = "".join(f"{key} {value}\n" for key, value in conf.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path.as_uri()))
    (tmp_path / "transformations" / "flows.py").write_text(FLOWS.format(**names, group=group))
    program = Installation.find().home / "bin" / "spark-pipelines"
    done = run([str(program), "run"], tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf"))
    for kind in ("table", "first", "second", "sink"):
        rows = described(broker.bootstrap_servers, f"{group}-{kind}")
        assert {row.lag for row in rows} == {0}, (kind, done.stderr[-5000:])
