"""Rows on their way through the driver: all of them, in order, and no more than are asked for."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, cast

import pyarrow as pa
import pytest

from eo_listener.kafka.producers import BatchProducer
from eo_listener.model.errors import PoisonRowError, SinkError
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.arrow_rows import TooManyBytesError
from eo_listener.sinks.dead_letters import SHARE, DeadLetterLimit, Refusals
from eo_listener.sinks.kafka import driver_writer
from eo_listener.sinks.kafka.catalog import Target, Targets
from eo_listener.sinks.kafka.driver_writer import DriverWriter
from eo_listener.sinks.kafka.transaction import BegunTransaction, DeadLetters, ProducerEpoch
from eo_listener.testing.made_up_entries import entry_of, plan_of

ENTRY = entry_of({}, {})
TOO_LARGE = "too large"


class Sent:
    """Takes records as a producer does."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Any]] = []
        self.flushed = 0

    def send(self, topic: str, value: Any, **_: Any) -> None:
        self.records.append((topic, value))

    def send_each(self, topic: str, values: Any, keys: Any) -> dict[int, str]:
        given = list(zip(values, keys, strict=True))
        self.records += [(topic, value) for value, _ in given if value != TOO_LARGE]
        return {at: "too large" for at, (value, _) in enumerate(given) if value == TOO_LARGE}

    def flush(self) -> None:
        self.flushed = len(self.records)


class Rows:
    """What Spark gives, part by part; knows how much was taken, and whether it was closed."""

    def __init__(self, *parts: pa.Table | Exception) -> None:
        self.parts = parts
        self.schema = next(one.schema for one in parts if isinstance(one, pa.Table))
        self.taken = 0
        self.closed = False

    def stream(self, *_: Any, **__: Any) -> Generator[pa.RecordBatch, None, None]:
        try:
            for part in self.parts:
                if isinstance(part, Exception):
                    raise part
                self.taken += 1
                yield from part.to_batches()
        finally:
            self.closed = True


@pytest.fixture
def writer_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(rows: Rows) -> DriverWriter:
        monkeypatch.setattr(driver_writer, "schema_of", lambda frame: frame.schema)
        monkeypatch.setattr(driver_writer, "stream", rows.stream)
        return DriverWriter(rows, plan_of(ENTRY), one_topic=True)

    return make


def begun(sent: Sent, dead_letters: str | None = None) -> BegunTransaction:
    return BegunTransaction(
        transactional_id="tx",
        epoch=ProducerEpoch(-1, -1),
        producer=cast(BatchProducer, sent),
        targets=Targets(topics={"delays": Target(id=None, partitions=1)}),
        dead_letters=DeadLetters(
            label="sink",
            topic=dead_letters,
            entry=ENTRY,
            refusals=Refusals(label="sink", limit=DeadLetterLimit(SHARE)),
        ),
    )


def part(*values: str, **columns: Any) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.string()), **columns})


def test_every_part_is_sent_in_order(writer_of: Any) -> None:
    """Rows are sent in order, and only the first part is fetched before the transaction begins."""
    rows, sent = Rows(part("a", "b"), part("c"), part("d")), Sent()
    writer = writer_of(rows)
    assert writer.prepare() == 1
    assert rows.taken == 1
    (report,) = writer.write(begun(sent))
    assert [value for _, value in sent.records] == ["a", "b", "c", "d"]
    assert report.records == {TopicPartition("delays", -1): 4}
    assert sent.flushed == 4


def test_no_rows(writer_of: Any) -> None:
    """A batch without rows sends nothing."""
    writer, sent = writer_of(Rows(part())), Sent()
    writer.prepare()
    (report,) = writer.write(begun(sent))
    assert (report.records, sent.records) == ({}, [])


def test_what_is_not_needed_is_not_computed(writer_of: Any) -> None:
    """A writer that is closed before the last row stops Spark's job."""
    rows = Rows(part("a"), part("b"))
    writer = writer_of(rows)
    writer.prepare()
    writer.close()
    assert rows.closed
    assert rows.taken == 1


def test_a_task_that_is_too_large(writer_of: Any) -> None:
    """A task with too many bytes is refused with the setting to change, not split out of order."""
    writer = writer_of(Rows(part("a"), TooManyBytesError("too many")))
    writer.prepare()
    with pytest.raises(SinkError, match="minPartitions"):
        writer.write(begun(Sent()))


def test_marked_rows(writer_of: Any) -> None:
    """They go to the topic of dead letters, with the whole row; without one they stop the batch."""
    rows = Rows(part("a", "b", eo_poison=pa.array([None, "bad"])))
    writer, sent = writer_of(rows), Sent()
    writer.prepare()
    transaction = begun(sent, "dead")
    (report,) = writer.write(transaction)
    assert report.records == {TopicPartition("delays", -1): 1}
    assert [topic for topic, _ in sent.records] == ["delays", "dead"]
    assert b'"reason": "bad"' in sent.records[1][1]
    assert transaction.dead_letters.refusals.count == 1
    writer = writer_of(rows)
    writer.prepare()
    with pytest.raises(PoisonRowError, match="bad"):
        writer.write(begun(Sent()))


def test_a_row_that_the_client_refuses(writer_of: Any) -> None:
    """It is in the topic of dead letters, with the very row."""
    keys = {"key": pa.array(["one", "two", "three"])}
    writer, sent = writer_of(Rows(part("a", TOO_LARGE, "b", **keys))), Sent()
    writer.prepare()
    (report,) = writer.write(begun(sent, "dead"))
    assert report.records == {TopicPartition("delays", -1): 2}
    assert [topic for topic, _ in sent.records] == ["delays", "delays", "dead"]
    assert json.loads(json.loads(sent.records[2][1])["row"])["key"] == "two"
