"""A new checkpoint of Kafka's offsets that the ledger in a Delta table has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eo_listener import DeltaSink, exactly_once, starting_offsets
from eo_listener.spark.jvm import delta_log
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs, topics
from tests.topics import Topics

__all__ = ["topics"]

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, LEFT_SOCKETS]


def test_a_new_checkpoint_goes_on_at_the_ledger(
    delta: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is made by another sink object, and after a RESTORE of the table."""
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    topic, path = topics.create(), tmp_path / "delays"
    jobs = Jobs(delta, topics, tmp_path)

    def run(checkpoint: str, start: str = "earliest") -> None:
        topics.fill(topic, 30)
        function = exactly_once(DeltaSink(path=str(path)))
        jobs.drain(jobs.read(topic, startingOffsets=start), function, checkpoint=checkpoint)
        function.close()

    def ledger() -> str:
        sink = DeltaSink(path=str(path))
        return starting_offsets(ledger=sink, query="q", bootstrap_servers=topics.servers)

    run("one")
    run("two", ledger())
    delta.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    run("three", ledger())
    found = delta.read.format("delta").load(str(path)).select("partition", "offset", "value")
    rows = found.collect()
    assert len({(row[0], row[1]) for row in rows}) == len(rows) == 90
    assert Counter(int(row[2]) for row in rows) == dict.fromkeys(range(30), 3)
