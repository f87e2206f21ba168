"""A session with Delta Lake in the JVM that all tests of a process share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.delta_lake import delta_session, jars
from tests.sinks.chapters.lake import interpret
from tests.sinks.delta.store import store
from tests.spark_session import spark

__all__ = ["delta", "spark", "store"]


@pytest.fixture(scope="session")
def delta(request: pytest.FixtureRequest) -> SparkSession:
    if not jars():
        pytest.skip("no Delta Lake fits this Spark")
    session = delta_session(request.getfixturevalue("spark"))
    interpret(session)
    return session
