"""The Java listener that hands Spark's events to Python."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.driver import drain
from eo_listener.spark.jvm.event_listener import unwrapped
from eo_listener.spark.jvm.running_query import find, source_options
from tests.spark.jvm.conftest import Start
from tests.spark.jvm.recorder import Recorder, listening
from tests.waiting import until

pytestmark = pytest.mark.spark


@pytest.fixture
def listen(spark: SparkSession) -> Iterator[Any]:
    with ExitStack() as ends:
        yield lambda recorder: ends.enter_context(listening(recorder, spark))


def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", "5").load()


def test_life_of_a_query(spark: SparkSession, start: Start, listen: Any) -> None:
    """Start, batches and end arrive; the reference answers when Spark has forgotten the query."""
    recorder = listen(Recorder())
    query = start(rates(spark), "life")
    until(lambda: recorder.texts)
    query.stop()
    assert drain(spark, 20)
    (held,) = recorder.queries
    ids = (str(query.id), str(query.runId), "life")
    assert (held.query_id, held.run_id, held.name) == ids
    assert recorder.begun == [ids]
    assert recorder.run_ids_ended == [str(query.runId)]
    newest = json.loads(recorder.texts[-1])
    assert newest["runId"] == str(query.runId)
    assert newest["sources"][0]["description"].startswith("RateStreamV2")
    assert [json.loads(text)["batchId"] for text in recorder.texts] == list(
        range(len(recorder.texts))
    )
    assert find(spark, str(query.id), str(query.runId)) is None
    assert [source.kafka for source in source_options(held)] == [False]


def test_idle(
    spark: SparkSession, start: Start, listen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's calls for a query without new data arrive, and raise no error on either side."""
    recorder = listen(Recorder())
    rate = spark.readStream.format("rate").option("rowsPerSecond", "1")
    query = start(rate.option("rampUpTime", "1h").load())
    until(lambda: recorder.run_ids_idle)
    assert recorder.run_ids_idle[0] == recorder.begun[0][1] == str(query.runId)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_exceptions_stay_in_python(
    spark: SparkSession, start: Start, listen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A receiver that fails is logged once for each method, and gets the next event anyway."""
    recorder = listen(Recorder(fail_in="progressed"))
    with caplog.at_level(logging.ERROR, "eo_listener"):
        query = start(rates(spark))
        until(lambda: len(recorder.texts) >= 3)
        query.stop()
        assert drain(spark, 20)
    assert len(recorder.run_ids_ended) == 1
    (record,) = caplog.records
    assert "onQueryProgress" in record.getMessage()


@pytest.mark.parametrize("method", ["hold", "started"])
def test_failing_start_leaves_the_query_alone(
    spark: SparkSession, start: Start, listen: Any, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """An exception at the start, on the query's own thread, does not end the query."""
    recorder = listen(Recorder(fail_in=method))
    with caplog.at_level(logging.ERROR, "eo_listener"):
        query = start(rates(spark))
        until(lambda: recorder.texts)
    assert query.isActive


@pytest.mark.parametrize("text", ['{"progress":{"a":{}}}', ' {"progress" : {"a": {}}}\n'])
def test_unwrapped(text: str) -> None:
    """The progress is found in an event's JSON, however that is spaced."""
    assert json.loads(unwrapped(text)) == {"a": {}}


def test_drain_times_out(spark: SparkSession, start: Start, listen: Any) -> None:
    """A bus whose listener is slow is not drained in time, and is later."""

    class Slow(Recorder):
        def progressed(self, text: str) -> None:
            time.sleep(0.8)

    listen(Slow())
    query = start(rates(spark))
    query.processAllAvailable()
    query.stop()
    begun = time.monotonic()
    assert not drain(spark, 0.1)
    assert time.monotonic() - begun < 1.2
    assert drain(spark, 30)


def test_no_session() -> None:
    """An object that is no classic session is refused plainly."""
    with pytest.raises(JvmError, match="Spark Connect"):
        find(object(), "a", "b")  # type: ignore[arg-type]  # on purpose
    assert not drain(object(), 1)  # type: ignore[arg-type]  # on purpose
