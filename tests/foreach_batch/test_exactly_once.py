"""Real queries into sinks, by exactly_once."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from eo_listener import exactly_once, starting_offsets
from eo_listener.events import BatchApplied, BatchReplayed, Event
from eo_listener.testing import MemorySink
from tests.attack import surgery
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs, PerBatch
from tests.threads import none_left
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


def values(sink: MemorySink) -> list[int]:
    return sorted(int(row["value"]) for row in sink.rows)


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def test_each_row_once_over_a_replay_and_a_new_checkpoint(jobs: Jobs, topics: Topics) -> None:
    """A batch whose commit was lost is skipped, and from the ledger a new checkpoint goes on."""
    topic = topics.create()
    sink, events = MemorySink(), []  # type: ignore[var-annotated]  # of Event
    function = exactly_once(sink, observers=[events.append])
    data = jobs.read(topic)
    topics.fill(topic, 30)
    jobs.drain(data, function)
    surgery.before_commit(jobs.checkpoint())
    topics.fill(topic, 30)
    jobs.drain(data, function)
    assert kinds(events) == [BatchApplied, BatchReplayed, BatchApplied]
    assert not next(event for event in events if isinstance(event, BatchReplayed)).discarded
    assert values(sink) == sorted([*range(30), *range(30)])
    topics.fill(topic, 30)
    start = starting_offsets(ledger=sink, query="q", bootstrap_servers=topics.servers)
    jobs.drain(jobs.read(topic, startingOffsets=start), function, checkpoint="new")
    assert Counter(values(sink)) == dict.fromkeys(range(30), 3)
    assert len({(row["partition"], row["offset"]) for row in sink.rows}) == 90
    function.close()


def test_a_stateful_replay_is_run_and_discarded(jobs: Jobs, topics: Topics) -> None:
    """Counts stay right over a replayed batch: it is computed, for the state, and not written."""
    topic = topics.create(partitions=1)
    sink, events = MemorySink(), []  # type: ignore[var-annotated]  # of Event
    function = exactly_once(sink, observers=[events.append])
    data = jobs.read(topic).groupBy("topic").count()
    for _ in range(2):
        topics.fill(topic, 10)
        jobs.drain(data, function, mode="update")
        surgery.before_commit(jobs.checkpoint())
    topics.fill(topic, 10)
    jobs.drain(data, function, mode="update")
    assert [row["count"] for row in sink.rows] == [10, 20, 30]
    assert [e.discarded for e in events if isinstance(e, BatchReplayed)] == [True, True]


def test_a_part_of_a_batch_is_not_computed_twice(jobs: Jobs, topics: Topics) -> None:
    """After a loss of shuffle files the query fails, and its restart computes the whole batch.

    The files stay, and Spark only forgets one: after a failed fetch it would take the executor for
    lost, and this session would lose each large result.
    """
    topic = topics.create()
    topics.fill(topic, 30)
    sink = MemorySink()
    write, lost = exactly_once(sink), list[int]()
    jvm: Any = jobs.spark.sparkContext._jvm
    spark = jvm.org.apache.spark.SparkEnv.get()
    outputs, executor = spark.mapOutputTracker(), spark.blockManager().blockManagerId()

    def function(frame: DataFrame, batch_id: int) -> None:
        frame.collect()
        if not lost:
            shuffles = outputs.shuffleStatuses().keySet().iterator()
            while shuffles.hasNext():
                lost.append(shuffles.next())
                outputs.unregisterMapOutput(lost[-1], 0, executor)
        write(frame, batch_id)

    data = jobs.read(topic).repartition(3)
    text = jobs.failure(data, function)
    assert "SinkError: Spark" in text
    assert sink.rows == []
    assert lost
    jobs.drain(data, function)
    assert values(sink) == list(range(30))


def test_what_is_wrong_is_said_first(
    jobs: Jobs, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """A lost checkpoint read from the start is refused; why stands before Spark's traceback."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 5)
    sink = MemorySink()
    function = exactly_once(sink)
    jobs.drain(jobs.read(topic), function)
    topics.fill(topic, 5)
    with caplog.at_level(logging.WARNING, "eo_listener"):
        text = jobs.failure(jobs.read(topic), function, checkpoint="lost")
    ours = "eo_listener.errors.OverlapError: "
    assert ours in text
    assert "Traceback" not in text[: text.index(ours)]
    assert "starting_offsets(ledger=" in text
    assert len([record for record in caplog.records if record.name == "eo_listener"]) == 1
    assert len(sink.rows) == 5


@pytest.mark.parametrize("listed", [False, True])
def test_a_frame_that_has_run_is_held_too(jobs: Jobs, topics: Topics, listed: bool) -> None:
    """Rows are computed once for two sinks, though the transform has looked at them before.

    A DataFrame that the user has cached stays cached.
    """
    topic = topics.create(partitions=1)
    one, two = MemorySink(key="one"), MemorySink(key="two")
    computed = jobs.spark.sparkContext.accumulator(0)

    def counted(value: str) -> str:
        computed.add(1)
        return value

    def transform(frame: DataFrame) -> Any:
        made = [frame.select("*"), frame.filter("offset >= 0")]
        assert all(frame.collect() for frame in made)
        computed.value = 0
        return made if listed else made[0]

    data = jobs.read(topic).withColumn("value", F.udf(counted, "string", useArrow=False)("value"))
    write, cached = exactly_once(one, two, transform=transform), []

    def function(frame: DataFrame, batch_id: int) -> None:
        if batch_id:
            frame.persist()
        write(frame, batch_id)
        cached.append(frame.storageLevel.useMemory)
        frame.unpersist()

    for batch in range(2):
        topics.fill(topic, 10)
        jobs.drain(data, function)
        assert values(one) == values(two) == sorted([*range(10)] * (batch + 1))
        assert computed.value == (0 if batch else 10)
    assert cached == [False, True]


pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


def test_queries_that_begin_anywhere_are_not_accused(jobs: Jobs, topics: Topics) -> None:
    """At the latest offset, again after a failure, with partitions and topics that come later."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    sink = MemorySink()
    options = {"kafka.metadata.max.age.ms": "100"}
    data = jobs.read(subscribePattern=f"{topic}.*", startingOffsets="latest", **options)
    jobs.drain(data, exactly_once(sink))  # without any record
    surgery.before_commit(jobs.checkpoint())
    jobs.drain(data, exactly_once(sink))
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(sink))
    assert [row["offset"] for row in sink.rows] == list(range(10, 15))
    topics.widen(topic, 2)
    later = f"{topic}-later"
    topics.create_as(later, partitions=1)
    topics.fill(later, 3)
    jobs.drain(data, exactly_once(sink))
    surgery.before_commit(jobs.checkpoint())
    jobs.drain(data, exactly_once(sink))
    topics.fill(topic, 6)
    topics.fill(later, 3)
    jobs.drain(data, exactly_once(sink))
    assert len({(row["topic"], row["partition"], row["offset"]) for row in sink.rows}) == 17
    assert len(sink.rows) == 17


def with_rows(function: PerBatch) -> PerBatch:
    """A function that returns by itself while there is nothing to write."""

    def per_batch(frame: DataFrame, batch_id: int) -> None:
        if not frame.isEmpty():
            function(frame, batch_id)

    return per_batch


def test_a_checkpoint_that_does_not_say_where_it_began(
    jobs: Jobs, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows whether batch 0 had rows: it halts, and Spark is not made to write it anew.

    With the trigger availableNow Spark does so by itself, from where the log ends now.
    """
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    sink = MemorySink()
    data = jobs.read(topic, startingOffsets="latest")
    jobs.drain(data, with_rows(exactly_once(sink)))
    sources = jobs.checkpoint() / "sources"
    shutil.rmtree(sources / "0")
    topics.fill(topic, 5)
    query = jobs.start(data, with_rows(exactly_once(sink)), drain=False)
    with caplog.at_level(logging.WARNING), pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    assert "NotInLedgerError" in str(raised.value)
    assert "for 0 of 1 Kafka sources" in caplog.text
    assert not list(sources.glob("*/0"))
    jobs.drain(data, with_rows(exactly_once(sink, on_first="accept")))
    assert [row["offset"] for row in sink.rows] == list(range(10, 15))


pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def lines(port: int, group: str) -> dict[str, float]:
    """What a scrape shows of the group and of the query's sink."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    told = re.findall(r"^eo_listener_(\w+){(.*)} (\S+)$", page, re.MULTILINE)
    return {name: float(number) for name, labels, number in told if group in labels}


def test_the_example_shows_group_and_sink(jobs: Jobs, topics: Topics, tmp_path: Path) -> None:
    """As it is written there, with its places put elsewhere: what SQLite got, beside the group."""
    topic, group = topics.create("metrics", partitions=1), unique("flights")
    topics.fill(topic, 5)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    listener = f"OffsetCommitListener(metrics_port={port}, preflight=False)"
    example = found[1].replace("OffsetCommitListener(metrics_port=9404)", listener)
    example = example.replace('"flights"', f'"{group}"')
    for place in ("flights.db", "checkpoint"):
        example = example.replace(f'"{place}"', repr(str(tmp_path / place)))
    flights = jobs.read(topic, **{"kafka.consumer.commit.groupid": group})
    names: dict[str, Any] = {"spark": jobs.spark, "flights": flights}
    with none_left():
        exec(compile(example, DOCUMENT.name, "exec"), names)  # noqa: S102  # the document's own
        told: dict[str, float] = {}
        deadline = time.monotonic() + 60
        while "consumergroup_current_offset" not in told and time.monotonic() < deadline:
            time.sleep(0.2)
            told = lines(port, group)
        names["query"].stop()
        jobs.spark.streams.removeListener(names["listener"])
        names["listener"].close()
        names["sink"].close()
    assert told["consumergroup_current_offset"] == 5
    assert told["sink_applied_offset"] == 5
    assert told["sink_rows_total"] == 5
    assert told["query_batch_id"] == 0
