"""How often a batch waits for the server, and which heads it locks: without Spark."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.pq import Trace

from eo_listener.errors import ForeignWriterError
from eo_listener.model.ledger import Entry
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.transaction import TransactionWriter
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.store import once
from tests.sinks.postgres.course import TP, Database, link_of, next_entry, write

ROWS = ArrowFrame.rows(
    "id bigint, run string, topic string, partition int, offset bigint",
    *((number, "r", *TP, number) for number in range(10)),
)


@contextmanager
def counted(link: Connection) -> Iterator[list[str]]:
    """The messages of libpq that are answered, and so waited for; complete after the block."""
    found: list[str] = []
    with tempfile.TemporaryFile("w+") as trace:
        link.pgconn.trace(trace.fileno())
        link.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS | Trace.REGRESS_MODE)
        yield found
        link.pgconn.untrace()
        trace.seek(0)
        found += re.findall(r"^F\t\d+\t(Sync|Query|CopyDone)\b", trace.read(), re.MULTILINE)


def move(writer: TransactionWriter, link: Connection, entry: Entry) -> None:
    with writer.transaction(link, entry):
        pass


@pytest.mark.parametrize(
    ("how", "most"),
    [({}, 7), ({"mode": "upsert", "keys": "id"}, 13), ({"dead_letters": "dead"}, 7)],
)
def test_how_often_a_batch_waits(db: Database, how: dict[str, Any], most: int) -> None:
    """The heads are read, the tables read, the transaction begun and the heads locked, rows
    copied (two), the ledger moved, and committed: one round trip each. A merge has six more.
    """
    sink = db.sink(**how)
    write(sink, ROWS)
    with counted(link_of(sink)) as waits:
        write(sink, ROWS)
    assert len(waits) <= most, waits


def begun(sink: PostgresSink) -> tuple[TransactionWriter, Connection]:
    """What the sink writes with, on a ledger that is there."""
    sink.applied(QUERY)
    writer = sink._writer(QUERY)
    return writer, sink._kept.connection(writer)


def test_heads_of_other_partitions_are_left_alone(db: Database) -> None:
    """A batch locks the heads of its own partitions, however many were ever seen."""
    dated = {TopicPartition(f"flights-{n}", 0): OffsetRange(0, 5) for n in range(300)}
    sink = db.sink(lock_timeout=0.2)
    move(*begun(sink), entry_of({}, dated))
    with psycopg.connect(db.dsn) as other:
        other.execute("SELECT FROM eo_ledger WHERE topic <> %s FOR UPDATE", (TP.topic,))
        for _ in range(2):
            move(*begun(sink), next_entry(sink))
    assert sink.applied(QUERY)[TP].range.until == 20
    assert len(sink.applied(QUERY)) == 301


def test_one_head_of_many_that_is_another_is_found(db: Database) -> None:
    """Before any row, and, where it was moved past our lock, at the end: nothing is written."""
    tps = [TopicPartition("flights", n) for n in range(101)]
    writer, link = begun(db.sink())
    first = entry_of({}, dict.fromkeys(tps[:100], OffsetRange(0, 5)))
    move(writer, link, first)
    heads = heads_of(first)
    more = {**dict.fromkeys(tps[:99], OffsetRange(5, 9)), tps[99]: OffsetRange(5, 5)}
    more[tps[100]] = OffsetRange(3, 3)
    entry = entry_of(heads, more, batch_id=1)
    for change in (
        "UPDATE eo_ledger SET run_id = 'another' WHERE \"partition\" = 17",
        "UPDATE eo_ledger SET run_id = 'run-1', query_id = 'new' WHERE \"partition\" = 17",
        'DELETE FROM eo_ledger WHERE "partition" = 17',
    ):
        db.script(change)
        with pytest.raises(ForeignWriterError) as refused:
            move(writer, link, entry)
        assert list(refused.value.ranges) == [tps[17]]

    def past() -> None:
        link.execute('UPDATE eo_ledger SET batch_id = 7 WHERE "partition" = 99')

    left = entry_of({tp: head for tp, head in heads.items() if tp != tps[17]}, more, batch_id=1)
    with once("sink.rows-written", past), pytest.raises(ForeignWriterError, match="flights-99"):
        move(writer, link, left)
    assert db.ask("SELECT DISTINCT batch_id FROM eo_ledger") == [0]
    move(writer, link, left)
    assert db.ask("SELECT count(*), min(batch_id) FROM eo_ledger") == [(101, 1)]
    # An empty range moves its head, and is in the history only where a partition begins.
    history = "SELECT verdict, count(*) FROM eo_ledger_history GROUP BY 1 ORDER BY 1"
    assert db.ask(history) == [("first", 102), ("next", 98)]


def test_two_first_batches_at_once(db: Database) -> None:
    """Both begin without a head to lock; the one that ends second is refused, and none hangs."""
    many = {TopicPartition("flights", n): OffsetRange(0, 5) for n in range(50)}
    turned = dict(reversed(many.items()))
    first, second = begun(db.sink()), begun(db.sink())
    entry = entry_of({}, many, run_id="one")
    with once("sink.rows-written", lambda: move(*first, entry)), pytest.raises(ForeignWriterError):
        move(*second, entry_of({}, turned, run_id="two"))
    assert db.ask("SELECT DISTINCT run_id FROM eo_ledger") == ["one"]
