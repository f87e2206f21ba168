"""A catalog for Iceberg tables, in a SQLite database, and a namespace of it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j import java_gateway, protocol
from pyspark.sql import SparkSession

from tests import iceberg_jars
from tests.sinks.chapters.lake import interpreted
from tests.sinks.iceberg.java_tables import Catalog
from tests.sinks.iceberg.lake import Lake
from tests.sinks.iceberg.store import store

__all__ = ["store"]


@pytest.fixture(scope="session")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    if not iceberg_jars.jars():
        pytest.skip("Iceberg has no runtime for this Spark")
    if iceberg_jars.IS_OLD:
        pytest.skip("before 1.11 each session leaves a query open, which locks a SQLite database")
    return Lake(spark, tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(catalog: Lake) -> Iterator[Lake]:
    """The catalog, with an empty namespace."""
    with interpreted(catalog.spark):  # it is that of other tests too
        catalog.begin()
        yield catalog
        catalog.spark.catalog.clearCache()


@pytest.fixture(scope="session")
def java_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    if not iceberg_jars.jars():
        pytest.skip("Iceberg has no runtime for this Spark")
    catalog = Catalog(tmp_path_factory.mktemp("java"))
    yield catalog
    catalog.close()


@pytest.fixture
def java(java_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog in a JVM of its own, without Spark.

    pyspark has py4j ask the JVM of Spark about each exception, whichever JVM it came from: there
    its number is that of another object.
    """
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
    return java_catalog
