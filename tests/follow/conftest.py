"""Real queries without any listener."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.broker import Broker
from tests.listener.queries import Queries
from tests.spark_session import spark

__all__ = ["spark"]  # a fixture, here for the tests of this folder


@pytest.fixture
def queries(spark: SparkSession, broker: Broker, tmp_path: Path) -> Queries:
    return Queries(spark, broker, tmp_path)
