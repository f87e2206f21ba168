"""The SQL of the ledger, as SQLite runs it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from eo_listener.errors import FormatError
from eo_listener.model.ledger import Entry, Head, LedgerKey
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_sql import LedgerSql, moved_heads
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of

LEDGER = LedgerSql(placeholder="?", moment="text")
TP = TopicPartition("flights", 0)
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    """A database with an empty ledger."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for statement in (*LEDGER.create(), *LEDGER.create()):
            made.execute(statement)
        yield made


def prune(connection: sqlite3.Connection, kept: int) -> int:
    """Let a batch forget all but so many; return how many rows."""
    due = LEDGER.prune("s", entry_of({}, {}, batch_id=200), batches=kept)
    assert due is not None
    return connection.execute(*due).rowcount


def put(connection: sqlite3.Connection, entry: Entry, now: datetime = NOW) -> None:
    connection.executemany(*LEDGER.insert("s", entry, now))
    connection.executemany(*LEDGER.move("s", entry, now))
    connection.executemany(*LEDGER.history("s", entry, rows=5, now=now))


def test_what_a_query_id_has_moved_is_read(connection: sqlite3.Connection) -> None:
    """By sink and query, with the heads of that id alone."""
    entry = entry_of({}, {TP: OffsetRange(0, 5), TopicPartition("flights", 1): OffsetRange(0, 1)})
    put(connection, entry)
    put(connection, replace(entry, query="renamed"))
    put(connection, replace(entry, query="foreign", query_id="another"))
    assert moved_heads(connection.execute(*LEDGER.moved_by(entry.query_id))) == {
        LedgerKey("s", QUERY): heads_of(entry),
        LedgerKey("s", "renamed"): heads_of(entry),
    }
    connection.execute("UPDATE eo_ledger SET format = 2")
    with pytest.raises(FormatError, match="newer"):
        moved_heads(connection.execute(*LEDGER.moved_by(entry.query_id)))


def test_the_history_is_bounded(connection: sqlite3.Connection) -> None:
    """The newest batches stay, by time, whatever checkpoint they came from; heads all stay."""
    entry = entry_of({}, {TP: OffsetRange(0, 5)})
    for number in range(30):  # batch ids begin again: three checkpoints of ten batches
        put(connection, replace(entry, batch_id=number % 10), NOW + timedelta(seconds=number))
    other = replace(entry, query="other")
    put(connection, other)
    connection.execute("UPDATE eo_ledger_history SET verdict = 'next'")
    assert LEDGER.prune("s", replace(entry, batch_id=7)) is None
    prune(connection, 12)
    count = "SELECT query, count(*), min(applied_at) FROM eo_ledger_history GROUP BY 1 ORDER BY 1"
    (kept, others) = connection.execute(count).fetchall()
    assert kept[:2] == (QUERY, 12)
    assert datetime.fromisoformat(kept[2]) == NOW + timedelta(seconds=18)
    assert others[:2] == ("other", 1)
    assert connection.execute("SELECT count(*) FROM eo_ledger").fetchone() == (2,)
    assert prune(connection, 1000) == 0


def test_losses_and_beginnings_are_never_forgotten(connection: sqlite3.Connection) -> None:
    """What was given up, and where a partition began, outlive all other history."""
    heads: dict[TopicPartition, Head] = {}
    for number in range(30):
        gap = OffsetRange(number * 10, number * 10 + 2) if number == 7 else None
        offset_range = OffsetRange(number * 10 + (2 if gap else 0), number * 10 + 10)
        entry = entry_of(heads, {TP: offset_range}, batch_id=number, gap=gap)
        put(connection, entry, NOW + timedelta(seconds=number))
        heads = heads_of(entry)
    prune(connection, 3)
    found = connection.execute(
        "SELECT batch_id, verdict, gap_start, gap_until FROM eo_ledger_history ORDER BY batch_id"
    ).fetchall()
    assert found == [
        (0, "first", None, None),
        (7, "gap accepted", 70, 72),
        *((number, "next", None, None) for number in (27, 28, 29)),
    ]


def test_a_batch_of_many_transactions_is_one_batch(connection: sqlite3.Connection) -> None:
    """Where each partition has a time of its own, the newest batches stay as well, and whole."""
    both = [TP, TopicPartition("flights", 1)]
    for batch_id in range(30):
        for at, tp in enumerate(both):
            entry = entry_of({}, {tp: OffsetRange(0, 5)}, batch_id=batch_id)
            put(connection, entry, NOW + timedelta(seconds=2 * batch_id + at))
    connection.execute("UPDATE eo_ledger_history SET verdict = 'next'")
    prune(connection, 12)
    count = "SELECT count(DISTINCT batch_id), count(*), min(batch_id) FROM eo_ledger_history"
    assert connection.execute(count).fetchone() == (12, 24, 18)
