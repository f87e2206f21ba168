"""A new checkpoint of Kafka's offsets that the ledger in an Iceberg table has."""

from __future__ import annotations

from collections import Counter

import pytest

from eo_listener import exactly_once, starting_offsets
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs, jobs, topics
from tests.sinks.iceberg.lake import Lake
from tests.topics import Topics

__all__ = ["jobs", "topics"]

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, LEFT_SOCKETS]


def test_a_new_checkpoint_goes_on_at_the_ledger(lake: Lake, jobs: Jobs, topics: Topics) -> None:
    """Also one that is made by another sink object, and after a rollback of the table."""
    topic = topics.create()

    def run(checkpoint: str, start: str = "earliest") -> None:
        topics.fill(topic, 30)
        function = exactly_once(lake.sink("t"))
        jobs.drain(jobs.read(topic, startingOffsets=start), function, checkpoint=checkpoint)
        function.close()

    def ledger() -> str:
        return starting_offsets(ledger=lake.sink("t"), query="q", bootstrap_servers=topics.servers)

    run("one")
    main = lake.java("t").main
    run("two", ledger())
    lake.java("t")._table.manageSnapshots().rollbackTo(main).commit()
    run("three", ledger())
    found = lake.other().table(lake.table("t")).select("partition", "offset", "value").collect()
    assert len({(row[0], row[1]) for row in found}) == len(found) == 90
    assert Counter(int(row[2]) for row in found) == dict.fromkeys(range(30), 3)
