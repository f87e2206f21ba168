"""A catalog for Iceberg tables, in a SQLite database, and a namespace of it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests import iceberg_jars
from tests.sinks.iceberg.java_tables import Catalog
from tests.sinks.iceberg.lake import Lake


@pytest.fixture(scope="session")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The catalog of this process."""
    if not iceberg_jars.jars():
        pytest.skip("Iceberg has no runtime for this Spark")
    return Lake(spark, tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(catalog: Lake) -> Iterator[Lake]:
    """The catalog, with an empty namespace."""
    catalog.begin()
    yield catalog
    catalog.spark.catalog.clearCache()


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """A catalog in a JVM of its own, without Spark."""
    if not iceberg_jars.jars():
        pytest.skip("Iceberg has no runtime for this Spark")
    catalog = Catalog(tmp_path_factory.mktemp("java"))
    yield catalog
    catalog.close()
