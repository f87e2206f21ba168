"""Which offsets each task of a batch reads, and where that is not so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from eo_listener.errors import SettingsError
from eo_listener.offsets import TopicPartition
from eo_listener.spark.jvm.task_ranges import task_ranges
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]

Change = Callable[[DataFrame], DataFrame]


def same(batches: Iterator[object]) -> Iterator[object]:
    return batches


def table(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame([("1", "one")], "value string, name string")


KEPT: dict[str, Change] = {
    "as it is": lambda df: df,
    "select and filter": lambda df: df.select("value").filter("value <> '1'"),
    "python": lambda df: df.select("value").mapInPandas(same, "value string"),  # type: ignore[arg-type]  # stands for any function
    "explode": lambda df: df.select(F.explode(F.array("value", "value"))),
    "broadcast join": lambda df: df.join(F.broadcast(table(df)), "value", "left"),
    "two broadcasts of one table": lambda df: df.join(F.broadcast(table(df)), "value", "left").join(
        F.broadcast(table(df).withColumnRenamed("name", "n")), "value", "left"
    ),
    "persist": lambda df: df.filter("value <> '1'").persist(),
}
MOVED: dict[str, tuple[Change, str]] = {
    "repartition": (lambda df: df.repartition(3), "a shuffle"),
    "groupBy": (lambda df: df.groupBy("value").count(), "a shuffle"),
    "distinct": (lambda df: df.distinct(), "a shuffle"),
    "orderBy": (lambda df: df.orderBy("value"), "a shuffle"),
    "shuffled join": (
        lambda df: df.hint("merge").join(table(df).hint("merge"), "value"),
        "shuffle",
    ),
    "window": (
        lambda df: df.withColumn(
            "n", F.row_number().over(Window.partitionBy("value").orderBy("offset"))
        ),
        "a shuffle",
    ),
    "coalesce": (lambda df: df.coalesce(1), "coalesce"),
    "union": (lambda df: df.union(df), "a union"),
    "limit": (lambda df: df.limit(1), "limit"),
    "persisted shuffle": (lambda df: df.repartition(3).persist(), "a shuffle"),
    "another frame": (table, "a coalesce or a union"),
    "crossJoin": (lambda df: df.crossJoin(df.withColumnRenamed("value", "v")), "join"),
}


def test_tasks_of_one_batch(jobs: Jobs, topics: Topics) -> None:
    """Steps that move no rows keep a task's range; all others are refused by name, unrun."""
    topic = topics.create(partitions=3)
    topics.fill(topic, 60)
    found: dict[str, object] = {}

    def ask(frame: DataFrame, _: int) -> None:
        for name, change in KEPT.items():
            changed = change(frame)
            found[name] = task_ranges(changed)
            changed.unpersist()
        rows = frame.groupBy(F.spark_partition_id().alias("task"), "topic", "partition")
        found["rows"] = rows.agg(F.min("offset"), F.max("offset")).collect()
        for name, (change, _cause) in MOVED.items():
            changed = change(frame)
            with pytest.raises(SettingsError) as raised:
                task_ranges(changed)
            found[name] = str(raised.value)
            changed.unpersist()

    jobs.drain(jobs.read(topic), ask)
    ranges = found["as it is"]
    assert isinstance(ranges, tuple)
    assert sorted(ranges) == [
        (TopicPartition(row[1], row[2]), (row[3], row[4] + 1))
        for row in sorted(found["rows"], key=lambda row: row[2])  # type: ignore[call-overload]  # rows
    ]
    assert [(task, ranges[task][0].partition) for task in range(3)] == sorted(
        (row[0], row[2])
        for row in found["rows"]  # type: ignore[attr-defined]  # rows
    )
    for name in KEPT:
        assert found[name] == ranges, name
    for name, (_, cause) in MOVED.items():
        assert cause in str(found[name]), name
        assert "one transaction" in str(found[name])


@pytest.mark.parametrize("option", ["minPartitions", "maxRecordsPerPartition"])
def test_partitions_cut_into_tasks(jobs: Jobs, topics: Topics, option: str) -> None:
    """A source option that gives a partition several tasks is refused by its name."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 60)
    found: list[object] = []

    def ask(frame: DataFrame, _: int) -> None:
        try:
            found.append(task_ranges(frame))
        except SettingsError as error:
            found.append(str(error))

    jobs.drain(jobs.read(topic, **{option: "4"}), ask)
    if option == "maxRecordsPerPartition" and jobs.spark.version < "4":
        assert found == [((TopicPartition(topic, 0), (0, 60)),)]  # that Spark has no such option
    else:
        assert option in str(found[0])
