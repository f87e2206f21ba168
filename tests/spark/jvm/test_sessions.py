"""Which session a thread works in, where a process has several."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.foreach_batch.exactly_once import in_session_of
from eo_listener.spark.jvm.sessions import candidate_sessions, working_in

pytestmark = pytest.mark.spark


def active(spark: SparkSession) -> str | None:
    """The session that the JVM has for this thread, by its settings."""
    found: Any = spark._jvm.org.apache.spark.sql.SparkSession.getActiveSession()  # type: ignore[union-attr]
    if not found.isDefined():
        return None
    return str(found.get().conf().get("test.name", "other"))


def named(spark: SparkSession, name: str) -> SparkSession:
    made = spark.newSession()
    made.conf.set("test.name", name)
    return made


def test_a_thread_works_in_the_session_it_was_told(spark: SparkSession) -> None:
    """In the JVM too; what was before comes back, and other threads have their own."""
    one, two = named(spark, "one"), named(spark, "two")
    two.createDataFrame([(1,)], "n int")
    assert active(spark) == "two"
    elsewhere: list[Any] = []

    def look() -> None:
        elsewhere.extend((active(spark), candidate_sessions()[0] is one))

    with in_session_of(one.range(1)):
        two.createDataFrame([(1,)], "n int")
        assert candidate_sessions()[0].conf.get("test.name") == "one"
        with working_in(two):
            assert (active(spark), candidate_sessions()[0]) == ("two", two)
        with working_in(one):
            assert (active(spark), candidate_sessions()[0]) == ("one", one)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert active(spark) == "two"
    assert candidate_sessions()[0] is two
    assert elsewhere == [None, False]
    with pytest.raises(ZeroDivisionError), working_in(one):
        raise ZeroDivisionError
    assert active(spark) == "two"


def test_a_thread_that_had_none_has_none_again(spark: SparkSession) -> None:
    """As that of a program which only reads a ledger."""
    one, seen = named(spark, "one"), []

    def work() -> None:
        with working_in(one):
            seen.append(active(spark))
        seen.append(active(spark))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["one", None]


def test_a_session_that_is_no_classic_one_changes_nothing() -> None:
    """As that of Spark Connect, or of a frame that stands for one in a test."""
    before = candidate_sessions()
    with working_in(SimpleNamespace()), in_session_of(object()):
        assert candidate_sessions() == before
