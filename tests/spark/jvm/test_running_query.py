"""Finding the live query behind an event."""

from __future__ import annotations

import threading
import uuid

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import JvmError
from eo_listener.spark.jvm.running_jvm import KAFKA, SHIM, has_class, is_running
from eo_listener.spark.jvm.running_query import find
from eo_listener.spark.jvm.source_options import source_options
from tests.spark.jvm.conftest import Start

pytestmark = pytest.mark.spark


def test_found_in_any_session(spark: SparkSession, start: Start) -> None:
    """A query is found through another session than its own, and knows its name."""
    query = start(spark.readStream.format("rate").load(), "named")
    found = find(spark.newSession(), str(query.id), str(query.runId))
    assert found is not None
    assert (found.query_id, found.run_id, found.name) == (
        str(query.id),
        str(query.runId),
        "named",
    )


def test_not_found(spark: SparkSession, start: Start) -> None:
    """Another run, another id and an ended query are not found."""
    query = start(spark.readStream.format("rate").load())
    assert find(spark, str(query.id), str(uuid.uuid4())) is None
    assert find(spark, str(uuid.uuid4()), str(query.runId)) is None
    query.stop()
    assert find(spark, str(query.id), str(query.runId)) is None


def test_not_an_id(spark: SparkSession) -> None:
    """An id that is no UUID is a JvmError, not a py4j exception."""
    with pytest.raises(JvmError, match="IllegalArgumentException"):
        find(spark, "not-an-id", "not-an-id")


def test_on_another_thread(spark: SparkSession, start: Start) -> None:
    """A worker thread of Python reaches the query, and the JVM finds the shim from there."""
    query = start(spark.readStream.format("rate").load())
    query.processAllAvailable()
    seen: list[object] = []

    def work() -> None:
        found = find(spark, str(query.id), str(query.runId))
        assert found is not None
        seen.extend([has_class(SHIM), len(source_options(found))])

    worker = threading.Thread(target=work)
    worker.start()
    worker.join(30)
    assert seen == [True, 1]


def test_classes(spark: SparkSession) -> None:
    """The JVM says which classes it has."""
    assert is_running()
    assert has_class(SHIM)
    assert has_class(KAFKA)
    assert not has_class("io.github.eolistener.Nothing")
