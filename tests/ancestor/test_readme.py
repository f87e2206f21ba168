"""What the README of the JVM ancestor promises, on the Spark of today.

That is spark-sql-kafka-offset-committer for Spark 2.4: the option `kafka.consumer.commit.groupid`,
the listener by `addListener` or by configuration, several sources on one group or on several,
`subscribePattern`, and Kafka's own tool at lag 0 once the input has stopped.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener import OffsetCommitListener
from tests.bridge.submitted import command, run
from tests.broker import Broker, parse_rows
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

# The README's own lines; `processAllAvailable` stands for its waiting.
SHELL = """
val bootstrapServers = "{servers}"
val checkpointLocation = "{checkpoint}"
val sourceTopics = Seq("{first}").mkString(",")
val sourceTopics2 = Seq("{second}").mkString(",")

val targetTopic = "{target}"

val df = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrapServers).option("subscribe", sourceTopics).option("startingOffsets", "earliest").option("kafka.consumer.commit.groupid", "{group}").load()

val df2 = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrapServers).option("subscribe", sourceTopics2).option("startingOffsets", "earliest").option("kafka.consumer.commit.groupid", "{group}").load()

val query = df.union(df2).writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrapServers).option("checkpointLocation", checkpointLocation).option("topic", targetTopic).option("kafka.atlas.cluster.name", "sink").start()

query.processAllAvailable()
query.stop()
System.exit(0)
"""  # noqa: E501  # as it stands there


def assert_lag_0(broker: Broker, group: str, *topics: str) -> None:
    """Kafka's own tool shows every partition of these topics, and no others, at its log end."""
    rows = parse_rows(broker.consumer_groups(group))
    assert {row.topic for row in rows} == set(topics)
    assert {row.lag for row in rows} == {0}
    assert all(row.current_offset == row.log_end_offset for row in rows)


@pytest.mark.slow
def test_by_configuration_in_a_spark_shell(broker: Broker, tmp_path: Path) -> None:
    """The ancestor's command and query work with our class in place of its own."""
    topics = Topics(broker.bootstrap_servers)
    first, second, target = (topics.create() for _ in range(3))
    topics.fill(first, 120)
    topics.fill(second, 70)
    group = unique("spark-sql-kafka-offset-committer-test-1")
    text = SHELL.format(
        servers=broker.bootstrap_servers,
        checkpoint=tmp_path / "mykafkaaaaaaa",
        first=first,
        second=second,
        target=target,
        group=group,
    )
    run(command("spark-shell"), tmp_path, text)
    assert_lag_0(broker, group, first, second)


def test_by_add_listener(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """With `subscribePattern`, and with a second source that has a group of its own."""
    topics = Topics(broker.bootstrap_servers)
    prefix, own = unique("topic"), topics.create()
    matched, unmatched = [f"{prefix}{number}" for number in (1, 2, 3)], f"{prefix}4"
    for topic in (*matched, unmatched):
        topics.create_as(topic)
    for topic in (*matched, unmatched, own):
        topics.fill(topic, 30)
    listener = OffsetCommitListener()
    spark.streams.addListener(listener)

    def read(key: str, value: str, group: str) -> DataFrame:
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option(key, value)
            .option("startingOffsets", "earliest")
            .option("kafka.consumer.commit.groupid", group)
            .load()
        )

    group1, group2 = unique("groupId1"), unique("groupId2")
    both = read("subscribePattern", f"{prefix}[1-3]", group1).union(read("subscribe", own, group2))
    query = both.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    try:
        running = query.start()
        running.processAllAvailable()
        assert listener.flush()
        assert_lag_0(broker, group1, *matched)
        assert_lag_0(broker, group2, own)
        running.stop()
    finally:
        spark.streams.removeListener(listener)
        listener.close()
