"""A session, topics, and small streaming queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark_session import spark

__all__ = ["spark"]

Start = Callable[..., StreamingQuery]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    """Start a query that throws its rows away; it is stopped when the test ends."""
    queries: list[StreamingQuery] = []

    def begin(
        data: DataFrame, name: str | None = None, every: str = "200 milliseconds"
    ) -> StreamingQuery:
        writer = data.writeStream.format("noop").trigger(processingTime=every)
        writer = writer.option("checkpointLocation", str(tmp_path / f"c{len(queries)}"))
        query = (writer.queryName(name) if name else writer).start()
        queries.append(query)
        return query

    yield begin
    for query in queries:
        query.stop()
