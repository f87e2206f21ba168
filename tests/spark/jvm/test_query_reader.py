"""Which queries are held, and for how long."""

from __future__ import annotations

import uuid

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import JvmError
from eo_listener.model.protocols import QueryMode, QueryReader
from eo_listener.spark.jvm.driver import LiveQueries
from eo_listener.spark.jvm.running_query import RunningQuery, find
from tests.spark.jvm.conftest import Start

pytestmark = pytest.mark.spark


def test_held_until_forgotten(spark: SparkSession, start: Start) -> None:
    """A query that was asked about once is held when it ends, with all it can answer."""
    query = start(spark.readStream.format("rate").load())
    query.processAllAvailable()
    ids = str(query.id), str(query.runId)
    live = LiveQueries()
    live.attach(spark)
    reader: QueryReader = live
    assert reader.options(*ids) == {}
    assert not reader.has_ended(*ids)
    query.stop()
    assert reader.has_ended(*ids)
    assert find(spark, *ids) is None
    assert reader.mode(*ids) is QueryMode.MICRO_BATCH
    position = reader.position(*ids)
    assert position is not None
    assert (position.batch_id >= 0, dict(position.committed)) == (True, {})
    assert reader.options(*ids) == {}
    reader.forget(ids[1])
    with pytest.raises(JvmError, match="not running"):
        reader.position(*ids)


def test_unknown_query(spark: SparkSession) -> None:
    """A query of which nobody knows is a JvmError, with a session to ask and without one."""
    ids = str(uuid.uuid4()), str(uuid.uuid4())
    live = LiveQueries()
    for question in (live.options, live.mode, live.position, live.has_ended):
        with pytest.raises(JvmError, match="not running"):
            question(*ids)
    live.attach(spark)
    assert live.has_ended(*ids)
    for question in (live.options, live.mode, live.position):
        with pytest.raises(JvmError, match="not running"):
            question(*ids)


def test_a_closed_one_holds_nothing(spark: SparkSession, start: Start) -> None:
    """A listener that stays registered after its close keeps no query of the JVM."""
    query = start(spark.readStream.format("rate").load())
    ids = str(query.id), str(query.runId)
    live = LiveQueries()
    live.attach(spark)
    assert not live.has_ended(*ids)
    assert len(live._held) == 1
    live.close()
    assert not live.has_ended(*ids)
    assert not live._held


def test_not_a_query(spark: SparkSession) -> None:
    """An object of another kind than a query is a JvmError by every way."""
    live = LiveQueries()
    stranger = spark._jvm.java.lang.Object()  # type: ignore[union-attr]  # a session has a JVM
    live.hold(RunningQuery(query_id="q", run_id="r", name=None, execution=stranger, jvm=spark._jvm))
    for question in (live.options, live.mode, live.position):
        with pytest.raises(JvmError):
            question("q", "r")


def test_bound() -> None:
    """Of queries whose end was never reported, the newest thousand are kept."""
    live = LiveQueries()
    for number in range(1001):
        live.hold(
            RunningQuery(query_id="q", run_id=str(number), name=None, execution=None, jvm=None)
        )
    assert "0" not in live._held
    assert len(live._held) == 1000


def test_shim(spark: SparkSession, start: Start) -> None:
    """A class of the shim is found by name, and what is not in the jar is not mistaken for one."""
    query = start(spark.readStream.format("rate").load())
    found = find(spark, str(query.id), str(query.runId))
    assert found is not None
    assert found.shim("PositionInspector") is not None
    assert found.shim("NoSuchInspector") is None
