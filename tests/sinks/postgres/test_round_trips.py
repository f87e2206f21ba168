"""How often a batch waits for the server, and which heads it locks: without Spark."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.pq import Trace

from eo_listener.model.errors import ForeignWriterError
from eo_listener.model.ledger import Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.transaction import TransactionWriter
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.store import once
from tests.sinks.postgres.course import TP, ask, next_entry, script, write

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
    """Write an entry without rows."""
    with writer.transaction(link, entry):
        pass


@pytest.mark.parametrize(
    ("how", "most"),
    [
        ({}, 7),
        ({"mode": "upsert", "keys": "id"}, 13),
        ({"dead_letters": "dead"}, 7),
    ],
)
def test_how_often_a_batch_waits(dsn: str, how: dict[str, Any], most: int) -> None:
    """The heads are read, the tables read, the transaction begun and the heads locked, rows
    copied (two), the ledger moved, and committed: one round trip each. A merge has six more.
    """
    with closing(PostgresSink(dsn, "t", **how)) as sink:
        write(sink, ROWS)
        assert sink._kept.link is not None
        with counted(sink._kept.link) as waits:
            write(sink, ROWS)
        assert len(waits) <= most, waits


def test_heads_of_other_partitions_are_left_alone(dsn: str) -> None:
    """A batch locks the heads of its own partitions, however many were ever seen."""
    dated = {TopicPartition(f"flights-{n}", 0): OffsetRange(0, 5) for n in range(300)}
    with closing(PostgresSink(dsn, "t", lock_timeout=0.2)) as sink:
        writer = sink._writer(QUERY)
        sink.applied(QUERY)
        link = sink._kept.connection(writer)
        move(writer, link, entry_of({}, dated))
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM eo_ledger WHERE topic <> %s FOR UPDATE", (TP.topic,))
            for _ in range(2):
                move(writer, link, next_entry(sink))
        assert sink.applied(QUERY)[TP].range.until == 20
        assert len(sink.applied(QUERY)) == 301


def test_one_head_of_many_that_is_another_is_found(dsn: str) -> None:
    """Before any row, and, where it was moved past our lock, at the end: nothing is written."""
    many = {TopicPartition("flights", n): OffsetRange(0, 5) for n in range(100)}
    with closing(PostgresSink(dsn, "t")) as sink:
        sink.applied(QUERY)
        writer = sink._writer(QUERY)
        link = sink._kept.connection(writer)
        first = entry_of({}, many)
        move(writer, link, first)
        heads = heads_of(first)
        more = {
            **{tp: OffsetRange(5, 9) for tp in many},
            TopicPartition("flights", 100): OffsetRange(0, 3),
        }
        entry = entry_of(heads, more, batch_id=1)
        for change in (
            "UPDATE eo_ledger SET run_id = 'another' WHERE \"partition\" = 17",
            "UPDATE eo_ledger SET run_id = 'run-1', query_id = 'new' WHERE \"partition\" = 17",
            'DELETE FROM eo_ledger WHERE "partition" = 17',
        ):
            script(dsn, change)
            with pytest.raises(ForeignWriterError, match="flights-17") as refused:
                move(writer, link, entry)
            assert list(refused.value.ranges) == [TopicPartition("flights", 17)]

        def past() -> None:
            link.execute('UPDATE eo_ledger SET batch_id = 7 WHERE "partition" = 99')

        left = entry_of(
            {tp: head for tp, head in heads.items() if tp.partition != 17}, more, batch_id=1
        )
        with once("sink.rows-written", past), pytest.raises(ForeignWriterError, match="flights-99"):
            move(writer, link, left)
        assert ask(dsn, "SELECT DISTINCT batch_id FROM eo_ledger") == [0]
        move(writer, link, left)
        assert ask(dsn, "SELECT count(*), min(batch_id) FROM eo_ledger") == [(101, 1)]
        history = "SELECT verdict, count(*) FROM eo_ledger_history GROUP BY 1 ORDER BY 1"
        assert ask(dsn, history) == [("first", 102), ("next", 99)]


def test_two_first_batches_at_once(dsn: str) -> None:
    """Both begin without a head to lock; the one that ends second is refused, and none hangs."""
    many = {TopicPartition("flights", n): OffsetRange(0, 5) for n in range(50)}
    turned = dict(reversed(many.items()))
    with closing(PostgresSink(dsn, "t")) as one, closing(PostgresSink(dsn, "t")) as two:
        for sink in (one, two):
            sink.applied(QUERY)
        first, second = one._writer(QUERY), two._writer(QUERY)
        entry = entry_of({}, many, run_id="one")
        with (
            once("sink.rows-written", lambda: move(first, one._kept.connection(first), entry)),
            pytest.raises(ForeignWriterError),
        ):
            move(second, two._kept.connection(second), entry_of({}, turned, run_id="two"))
        assert ask(dsn, "SELECT DISTINCT run_id FROM eo_ledger") == ["one"]
