"""Real queries whose batch is the first to the ledger alone, and those that begin anywhere."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from eo_listener import SqliteSink, exactly_once
from eo_listener.testing import MemorySink
from tests.attack import surgery
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs, PerBatch
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


def test_a_renamed_query(jobs: Jobs, topics: Topics) -> None:
    """Its last batch is in the sink and not in Spark's commits: under a new name it fails."""
    topic = topics.create(partitions=1)
    sink = MemorySink()
    data = jobs.read(topic)
    for _ in range(2):
        topics.fill(topic, 5)
        jobs.drain(data, exactly_once(sink), name="old")
    surgery.before_commit(jobs.checkpoint())
    for on_first in ("fail", "accept"):
        renamed = exactly_once(sink, on_first=on_first)
        text = jobs.failure(data, renamed, name="new")
        assert "NotInLedgerError" in text
        assert 'name="old"' in text
    assert len(sink.rows) == 10
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(sink, name="old"), name="new")
    assert len(sink.rows) == 15
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(sink, on_first="accept"), name="new")
    assert len({row["offset"] for row in sink.rows}) == len(sink.rows) == 20


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


def offsets(file: Path) -> list[tuple[str, int]]:
    """What a table of SQLite has of each topic."""
    with contextlib.closing(sqlite3.connect(file)) as link:
        return list(link.execute('SELECT topic, "offset" FROM t ORDER BY 1, 2'))


@pytest.mark.slow
def test_a_function_that_leaves_out_empty_batches(
    jobs: Jobs, topics: Topics, tmp_path: Path
) -> None:
    """Batch 0 is none to the ledger, and nothing was read by it: of two sources, begun anywhere."""
    one, two = topics.create(partitions=1), topics.create(partitions=1)
    for topic in (one, two):
        topics.fill(topic, 10)
    now = json.dumps({two: {"0": int(time.time() * 1000) + 60_000}})
    data = jobs.read(one, startingOffsets="latest", failOnDataLoss="false").union(
        jobs.read(two, startingOffsetsByTimestamp=now, startingOffsetsByTimestampStrategy="latest")
    )
    file = tmp_path / "t.sqlite"

    def drain() -> None:
        jobs.drain(data, with_rows(exactly_once(SqliteSink(file, table="t"))))

    drain()
    assert not file.exists()
    topics.fill(one, 5)
    drain()
    topics.fill(two, 5)
    drain()
    surgery.before_commit(jobs.checkpoint())
    topics.fill(one, 5)
    drain()
    assert offsets(file) == [
        (topic, offset)
        for topic in sorted((one, two))
        for offset in (range(10, 20) if topic == one else range(10, 15))
    ]
    file.rename(tmp_path / "lost.sqlite")
    topics.fill(one, 5)
    text = jobs.failure(data, exactly_once(SqliteSink(file, table="t")))
    assert "NotInLedgerError" in text
    assert f"{one}-0 0..20" in text


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
    assert "has it of 0 of 1 sources" in caplog.text
    assert not list(sources.glob("*/0"))
    jobs.drain(data, with_rows(exactly_once(sink, on_first="accept")))
    assert [row["offset"] for row in sink.rows] == list(range(10, 15))
