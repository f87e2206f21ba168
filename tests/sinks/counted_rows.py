"""A table in which a row is lost and one is doubled, counted by the command beside a real log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from eo_listener.model.ledger import Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.testing.made_up_entries import QUERY, Heads, Row, entry_of, plan_of, rows_of
from tests.cli.commands import run_here
from tests.topics import Topics

_BATCHES = 3
_EACH = 10  # offsets of a batch and a partition


def count(
    capsys: pytest.CaptureFixture[str],
    servers: str,
    address: str,
    session: SparkSession,
    table: str,
    write: Callable[[list[Row], Entry, PlannedBatch], Heads],
) -> None:
    """Write batches, each by `write`, which returns the heads after it; then change the table.

    The query begins in mid-stream, at offset 5, and records come that it has not read yet. `table`
    is as `session` names it.
    """
    topic = Topics(servers).create(partitions=2)
    tps = [TopicPartition(topic, number) for number in range(2)]
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for tp in tps:
        for _ in range(5 + _EACH * _BATCHES + 7):
            producer.produce(tp.topic, value=b"x", partition=tp.partition)
    assert producer.flush(30) == 0
    heads: Heads = {}
    for number in range(_BATCHES):
        start = 5 + _EACH * number
        ranges = dict.fromkeys(tps, OffsetRange(start, start + _EACH))
        entry = entry_of(heads, ranges, batch_id=number, topic_id=None)
        heads = write(rows_of(entry), entry, plan_of(entry))
    command = ("audit", "-b", servers, "--ledger", address, "--query", QUERY, "--rows")
    code, document = run_here(capsys, *command)
    assert (code, document["lost"], document["doubled"]) == (0, 0, 0), document
    (agreed,) = (one for one in document["findings"] if one["about"].startswith("rows of"))
    assert agreed["what"].startswith(f"{2 * _EACH * _BATCHES} rows: ")
    session.sql(f"DELETE FROM {table} WHERE partition = 1 AND offset = 17")
    session.sql(
        f"INSERT INTO {table} SELECT * FROM {table} WHERE partition = 0 AND offset IN (20, 21)"
    )
    code, document = run_here(capsys, *command)
    found = {
        one["kind"]: one["what"]
        for one in document["findings"]
        if one["about"].startswith("rows of")
    }
    assert (code, document["lost"], document["doubled"]) == (1, 1, 2)
    assert found.keys() == {"rows missing", "rows doubled"}
    assert f"{tps[1]} 17..18" in found["rows missing"]
    assert f"{tps[0]} 20..22" in found["rows doubled"]
