"""Finding the live query behind an event, and for how long it is held."""

from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.model.protocols import QueryMode, QueryReader
from eo_listener.spark.jvm.calls import SHIM, has_class
from eo_listener.spark.jvm.driver import LiveQueries
from eo_listener.spark.jvm.running_query import RunningQuery, find, source_options
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
    assert reader.beginnings(*ids) == {}  # only Kafka's are of use
    reader.forget(ids[1])
    with pytest.raises(JvmError, match="not running"):
        reader.position(*ids)


def test_unknown_query(spark: SparkSession) -> None:
    """A query of which nobody knows is a JvmError, with a session to ask and without one."""
    ids = str(uuid.uuid4()), str(uuid.uuid4())
    live = LiveQueries()
    for question in (live.options, live.mode, live.position, live.beginnings, live.has_ended):
        with pytest.raises(JvmError, match="not running"):
            question(*ids)
    live.attach(spark)
    assert live.has_ended(*ids)
    for question in (live.options, live.mode, live.position, live.beginnings):
        with pytest.raises(JvmError, match="not running"):
            question(*ids)


def test_a_closed_one_holds_nothing(spark: SparkSession, start: Start) -> None:
    """A listener that stays registered after its close keeps no query of the JVM."""
    query = start(spark.readStream.format("rate").load())
    ids = str(query.id), str(query.runId)
    live = LiveQueries()
    live.attach(spark)
    assert not live.has_ended(*ids)
    assert len(live._queries) == 1
    live.close()
    assert not live.has_ended(*ids)
    assert not live._queries


def test_the_queries_of_a_jvm_that_is_gone_have_ended(
    spark: SparkSession, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark has connected to another JVM since: nobody can ask the first one any more."""
    query = start(spark.readStream.format("rate").load())
    ids = str(query.id), str(query.runId)
    live = LiveQueries()
    live.attach(spark)
    assert not live.has_ended(*ids)
    new = SimpleNamespace(_jvm=SimpleNamespace(_gateway_client=object()))
    monkeypatch.setattr(SparkSession, "_instantiatedSession", new)
    assert live.has_ended(*ids)


def test_bound() -> None:
    """Of queries whose end was never reported, the newest thousand are kept."""
    live = LiveQueries()
    for number in range(1001):
        live.hold(
            RunningQuery(query_id="q", run_id=str(number), name=None, execution=None, jvm=None)
        )
    assert "0" not in live._queries
    assert len(live._queries) == 1000


def test_found_from_any_session_and_thread(spark: SparkSession, start: Start) -> None:
    """With its name, and with its sources; another run of it, and an ended one, are not found."""
    query = start(spark.readStream.format("rate").load(), "named")
    query.processAllAvailable()
    ids = str(query.id), str(query.runId)

    def look() -> tuple[object, ...]:
        found = find(spark.newSession(), *ids)
        assert found is not None
        return found.query_id, found.run_id, found.name, has_class(SHIM), len(source_options(found))

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(look).result(30) == (*ids, "named", True, 1)
    assert find(spark, ids[0], str(uuid.uuid4())) is None
    assert find(spark, str(uuid.uuid4()), ids[1]) is None
    query.stop()
    assert find(spark, *ids) is None


PROGRAM = """
import os, signal, time
from eo_listener.errors import JvmError
from eo_listener.spark.jvm.driver import drain
from eo_listener.spark.jvm.running_query import find
from eo_listener.spark.jvm.driver import LiveQueries
from tests.spark_session import new_session
spark = new_session(connector=False)
query = spark.readStream.format("rate").load().writeStream.format("noop").start()
live, ids = LiveQueries(), (str(query.id), str(query.runId))
live.attach(spark)
query.processAllAvailable()
print("RUNNING", drain(spark, 10), live.mode(*ids).name, live.position(*ids).committed)
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
os.kill(pid, signal.SIGKILL)
begun = time.monotonic()
print("KILLED", [drain(spark, 10) for _ in range(3)], time.monotonic() - begun < 10)
try:
    find(spark, "a", "b")
except JvmError as error:
    print("ASKED", error)
for question in (live.mode, live.position, live.options):
    try:
        question(*ids)
    except JvmError as error:
        print("ASKED", error)
"""


@pytest.mark.slow
def test_killed_jvm() -> None:
    """With the JVM killed drain says no at once, and every question becomes a JvmError."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("R", "K", "A"))]
    assert said[:2] == ["RUNNING True MICRO_BATCH {}", "KILLED [False, False, False] True"], (
        done.stderr[-3000:]
    )
    assert len(said) == 6
    assert all("cannot reach" in line for line in said[2:])
