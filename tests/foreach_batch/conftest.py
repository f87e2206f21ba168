"""A session, topics, and queries that run a function for each of their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark_session import spark
from tests.topics import Topics

__all__ = ["spark"]

# pyspark leaves the sockets by which `collect` brings rows to the garbage collector.
LEFT_SOCKETS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PerBatch = Callable[[DataFrame, int], object]


@dataclass(frozen=True)
class Jobs:
    """Starts queries of one session on one broker, each checkpoint a folder of its own."""

    spark: SparkSession
    topics: Topics
    folder: Path

    def read(self, *topics: str, **options: str) -> DataFrame:
        """One source of Kafka from the earliest offset, its value as text."""
        reader = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.topics.servers)
            .option("startingOffsets", "earliest")
        )
        if topics:
            reader = reader.option("subscribe", ",".join(topics))
        return (
            reader.options(**options)
            .load()
            .selectExpr("topic", "partition", "offset", "string(value) AS value", "timestamp")
        )

    def start(
        self,
        data: DataFrame,
        function: PerBatch,
        *,
        name: str | None = "q",
        checkpoint: str = "c",
        mode: str = "append",
        drain: bool = True,
    ) -> StreamingQuery:
        """Start a query; by default one that ends with what is there now."""
        writer = data.writeStream.foreachBatch(function).outputMode(mode)  # type: ignore[arg-type]  # any result is left alone
        writer = writer.option("checkpointLocation", str(self.checkpoint(checkpoint)))
        if name is not None:
            writer = writer.queryName(name)
        writer = (
            writer.trigger(availableNow=True)
            if drain
            else writer.trigger(processingTime="100 milliseconds")
        )
        return writer.start()

    def drain(self, data: DataFrame, function: PerBatch, **options: str | None) -> None:
        """Process what is there now, and wait for the end. Raises StreamingQueryException."""
        query = self.start(data, function, **options)  # type: ignore[arg-type]  # names of start
        assert query.awaitTermination(120)

    def failure(self, data: DataFrame, function: PerBatch, **options: str | None) -> str:
        """Process what is there until it fails, and give Spark's whole text of it."""
        query = self.start(data, function, **options)  # type: ignore[arg-type]  # names of start
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(120)
        return str(raised.value)

    def checkpoint(self, name: str = "c") -> Path:
        return self.folder / name


@pytest.fixture
def jobs(spark: SparkSession, topics: Topics, tmp_path: Path) -> Iterator[Jobs]:
    yield Jobs(spark, topics, tmp_path)
    for query in spark.streams.active:
        query.stop()
