"""A log that was cut back below what the sink has: what is printed lets the query go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.broker import Broker
from tests.disasters.documented import audit_says
from tests.disasters.pipeline import Pipeline
from tests.disasters.said import NOTHING
from tests.disasters.stores import SqliteStore
from tests.foreach_batch.conftest import LEFT_SOCKETS
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


def _sizes(broker: Broker, topic: str) -> dict[Path, int]:
    """The files with the topic's records, and how long they are."""
    return {path: path.stat().st_size for path in broker.data.rglob(f"{topic}-*/*.log")}


def _cut_back(broker: Broker, sizes: dict[Path, int]) -> None:
    """As for a leader that has not got the newest records: the ids of topics stay the same."""
    broker.kill()
    for path, size in sizes.items():
        with path.open("r+b") as file:
            file.truncate(size)
    broker.restart()


def test_after_an_unclean_election(spark: SparkSession, start_broker: Any, tmp_path: Path) -> None:
    """What is printed starts the query under another name, and each new record is there once."""
    broker = start_broker()
    topics, store = Topics(broker.bootstrap_servers), SqliteStore(tmp_path / "store.db")
    pipeline = Pipeline.begin(spark, topics, store, tmp_path)
    topic = pipeline.topic
    pipeline.work()
    sizes, kept, known = _sizes(broker, topic), pipeline.ends(), pipeline.records()
    pipeline.work()
    before = pipeline.store.rows()
    _cut_back(broker, sizes)
    assert pipeline.ends() == kept
    said = pipeline.audit()
    (words,) = audit_says("the log was cut back")
    found = next(one for one in said.to_act_on if words in one.what)
    topics.fill(topic, 10)
    pipeline.repair(found)
    start = json.loads(pipeline.source["startingOffsets"])
    assert start == {topic: {"0": -1, "1": -1}}
    assert "-1" in found.fix
    start[topic] = {str(tp.partition): at for tp, at in kept.items()}
    pipeline.source["startingOffsets"] = json.dumps(start)
    assert pipeline.settings == {"name": "NEW"}
    pipeline.work()
    assert pipeline.store.rows() == before + pipeline.records() - known
    after = pipeline.audit("--rows")
    assert (after.code, after.verdict) == (0, NOTHING), after.text
