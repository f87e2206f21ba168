"""Spark itself takes the checkpoints that surgery leaves for what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from tests.attack import surgery
from tests.broker import Broker
from tests.listener.queries import Queries
from tests.spark_session import spark
from tests.topics import Topics

__all__ = ["spark"]  # a fixture

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def drained(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Queries, str]:
    """A query of three batches at its end, and its topic."""
    queries = Queries(spark, broker, tmp_path_factory.mktemp("surgery"))
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create()
    for _ in range(3):
        topics.fill(topic, 30)
        queries.drain(queries.read(subscribe=topic))
    return queries, topic


def temporaries(checkpoint: Path) -> None:
    for folder in ("offsets", "commits"):
        surgery.leave_temporary(checkpoint, folder)


@pytest.mark.parametrize(
    ("cut", "done"),
    [
        (surgery.before_commit, 1),
        (surgery.before_offsets, 1),
        (temporaries, 2),
        (lambda checkpoint: surgery.rewind_to(checkpoint, 0), 0),
    ],
    ids=["before_commit", "before_offsets", "leave_temporary", "rewind_to"],
)
def test_spark_goes_on_from_there(
    cut: Callable[[Path], object], done: int, drained: tuple[Queries, str], tmp_path: Path
) -> None:
    """The query starts, and ends with the same offsets in a new batch or the one replayed."""
    queries, topic = drained
    copy = surgery.copy(queries.folder / "c", tmp_path / "c")
    whole = Checkpoint(str(copy)).committed().offsets
    cut(copy)
    before = Checkpoint(str(copy)).committed().offsets
    assert before is not None
    assert whole is not None
    assert (before.batch, whole.batch) == (done, 2)
    again = Queries(queries.spark, queries.broker, tmp_path)
    again.drain(again.read(subscribe=topic))
    after = Checkpoint(str(copy)).committed().offsets
    assert after is not None
    assert after.kafka() == whole.kafka()


@pytest.mark.parametrize("folder", ["offsets", "commits"])
def test_spark_refuses_a_torn_file(
    folder: str, drained: tuple[Queries, str], tmp_path: Path
) -> None:
    """A torn file does not match its checksum, and the query fails: so we do not use it either."""
    queries, topic = drained
    copy = surgery.copy(queries.folder / "c", tmp_path / "c")
    surgery.tear(copy / folder / "2")
    again = Queries(queries.spark, queries.broker, tmp_path)
    with pytest.raises(StreamingQueryException):
        again.drain(again.read(subscribe=topic))
    found = Checkpoint(str(copy)).committed()
    assert found.offsets is not None
    assert found.offsets.batch == 1
    assert found.findings
