"""Small streaming queries over Kafka, as users write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener.offsets import Position, TopicPartition
from tests.broker import Broker
from tests.groups import Described, described, positions


@dataclass(frozen=True)
class Queries:
    """Starts queries of one session on one broker."""

    spark: SparkSession
    broker: Broker
    folder: Path

    def read(self, **options: str) -> DataFrame:
        """A Kafka source from the earliest offset; `__` in an option's name stands for a dot."""
        reader = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.broker.bootstrap_servers)
            .option("startingOffsets", "earliest")
        )
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load().select("value")

    def start(
        self,
        data: DataFrame,
        name: str | None = None,
        *,
        checkpoint: str = "c",
        drain: bool = True,
        each: Callable[[DataFrame, int], None] | None = None,
    ) -> StreamingQuery:
        """Start a query; by default up to what is there now, and throwing its rows away."""
        written = data.writeStream
        writer = written.format("noop") if each is None else written.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(self.folder / checkpoint))
        if name is not None:
            writer = writer.queryName(name)
        if drain:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime="100 milliseconds")
        return writer.start()

    def drain(self, data: DataFrame, name: str | None = None, *, checkpoint: str = "c") -> None:
        """Process all that is there now, and wait for the end."""
        query = self.start(data, name, checkpoint=checkpoint)
        assert query.awaitTermination(90)

    def described(self, group: str) -> tuple[Described, ...]:
        """Each partition that a group holds."""
        return described(self.broker.bootstrap_servers, group)

    def positions(self, group: str) -> dict[TopicPartition, Position]:
        """What a group holds by our own reader."""
        return positions(self.broker.bootstrap_servers, group)

    def assert_drained(self, group: str, *topics: str, partitions: int = 3) -> None:
        """Every partition is at its log end, and there is nothing but these topics."""
        rows = self.described(group)
        assert {row.topic for row in rows} == set(topics)
        assert len(rows) == len(topics) * partitions
        for row in rows:
            assert row.current_offset == row.log_end_offset, row
            assert row.lag == 0, row
        assert sum(row.current_offset for row in rows) > 0
