"""A pipeline for each kind of store, on one Spark and one broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.broker import Broker
from tests.disasters.pipeline import Pipeline
from tests.disasters.stores import KafkaStore, PostgresStore, SqliteStore, Store
from tests.postgres_server import postgres, schema_of_its_own
from tests.spark_session import spark
from tests.topics import Topics, unique

__all__ = ["postgres", "spark"]


@pytest.fixture(autouse=True)
def no_listener_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is at work while `audit` reads: it need not wait for one."""
    monkeypatch.setattr("eo_listener.cli.position_reader._SETTLE", 0.0)


@pytest.fixture
def store(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Iterator[Store]:
    """The store that a test is parametrized with."""
    if request.param == "sqlite":
        yield SqliteStore(tmp_path / "store.db")
    elif request.param == "postgres":
        with schema_of_its_own(request) as dsn:
            yield PostgresStore(dsn)
    else:
        topics = Topics(broker.bootstrap_servers)
        servers = {"kafka.bootstrap.servers": topics.servers}
        yield KafkaStore(topics, servers, topics.create("target", 1), unique("ledger"))


@pytest.fixture
def pipeline(spark: SparkSession, broker: Broker, store: Store, tmp_path: Path) -> Pipeline:
    """A query that has not run yet."""
    return Pipeline.begin(spark, Topics(broker.bootstrap_servers), store, tmp_path)
