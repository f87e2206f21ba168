"""Real queries into Kafka: windows in the update mode, batches without rows, order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.kafka import KafkaSink
from tests.broker import Broker
from tests.sinks.kafka.records import committed, is_settled
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

WINDOW = 10  # seconds: the offset of a record is the second at which it happened
RECORDS = 100
AT_ONCE = 24  # records of a batch

Method = Literal["driver", "executors"]
METHODS: tuple[Method, ...] = ("driver", "executors")


class Course:
    """A source with records, a target, and queries from one into the other."""

    def __init__(self, spark: SparkSession, servers: str, method: Method, folder: Path) -> None:
        self.spark, self.servers, self.folder = spark, servers, folder
        self.topics = Topics(servers)
        self.source = self.topics.create("source", 1)
        self.target = self.topics.create("target", 3)
        self.sink = KafkaSink(
            {"kafka.bootstrap.servers": servers},
            self.target,
            ledger_topic=unique("ledger"),
            write_method=method,
        )

    def run(
        self,
        shape: Callable[[DataFrame], Any],
        mode: str = "append",
        transform: Callable[[Any], Any] | None = None,
    ) -> int:
        """Process what there is; return how many batches that took."""
        records = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", AT_ONCE)
            .load()
        )
        function = exactly_once(self.sink, transform=transform)
        query = (
            shape(records)
            .writeStream.queryName("shaped")
            .outputMode(mode)
            .foreachBatch(function)
            .option("checkpointLocation", str(self.folder))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)
        function.close()
        return len([*(self.folder / "commits").glob("[0-9]*")])

    def shown(self) -> list[tuple[str, str]]:
        """Key and value of each record, in the order of its partition."""
        found = committed(self.servers, self.target)
        return [((one.key() or b"").decode(), one.value().decode()) for one in found]


@pytest.fixture(params=METHODS)
def course(
    request: pytest.FixtureRequest, spark: SparkSession, broker: Broker, tmp_path: Path
) -> Course:
    return Course(spark, broker.bootstrap_servers, request.param, tmp_path / "checkpoint")


def test_windows_in_the_update_mode(course: Course) -> None:
    """Each batch sends the windows that it has changed, once, and each window's in their order."""
    course.topics.fill(course.source, RECORDS)

    def windows(records: DataFrame) -> DataFrame:
        return (
            records.select(F.timestamp_seconds("offset").alias("at"))
            .withWatermark("at", "20 seconds")
            .groupBy(F.window("at", f"{WINDOW} seconds"))
            .count()
            .selectExpr("string(bigint(window.start)) AS key", "string(count) AS value")
        )

    course.run(windows, "update")
    by_window: dict[str, list[int]] = {}
    for key, value in course.shown():
        by_window.setdefault(key, []).append(int(value))
    assert by_window == _updates()
    assert is_settled(course.servers, course.target)


def _updates() -> dict[str, list[int]]:
    """The counts of each window, as they are after each batch that has records of it."""
    expected: dict[str, list[int]] = {}
    for start in range(0, RECORDS, AT_ONCE):
        end = min(start + AT_ONCE, RECORDS)
        for window in range(start // WINDOW, (end - 1) // WINDOW + 1):
            count = min(end, (window + 1) * WINDOW) - window * WINDOW
            expected.setdefault(str(window * WINDOW), []).append(count)
    return expected


def test_batches_without_rows(course: Course) -> None:
    """The ledger moves with each of them; then one with rows comes, and none is repeated."""
    course.topics.fill(course.source, RECORDS)

    def few(frame: Any) -> Any:
        return frame.selectExpr("string(offset) AS value").filter("int(value) >= 90")

    assert course.run(lambda records: records, transform=few) == -(-RECORDS // AT_ONCE)
    assert [value for _, value in course.shown()] != []
    assert sorted(value for _, value in course.shown()) == [str(n) for n in range(90, RECORDS)]
    (head,) = course.sink.applied("shaped").values()
    assert head.range.until == RECORDS
    assert is_settled(course.servers, course.target)


def test_random_values_and_the_order_of_a_key(course: Course) -> None:
    """Each record once, though no two computations of it are alike; a key's in their old order."""
    course.topics.fill(course.source, RECORDS)

    def randomly(frame: Any) -> Any:
        return frame.selectExpr(
            "string(offset % 5) AS key",
            "to_json(struct(offset AS o, rand() AS r, current_timestamp() AS t)) AS value",
        )

    course.run(lambda records: records, transform=randomly)
    by_key: dict[str, list[int]] = {}
    for key, value in course.shown():
        by_key.setdefault(key, []).append(json.loads(value)["o"])
    assert by_key == {str(key): [*range(key, RECORDS, 5)] for key in range(5)}
