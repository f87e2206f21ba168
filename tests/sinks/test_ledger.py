"""A ledger as one text, as SQL, and as steps; and one that another driver has written to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.history import read_history
from eo_listener.errors import ForeignWriterError, FormatError
from eo_listener.model.ledger import Entry, Head, LedgerKey
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.foreign_writer import ledger_changed, refuse_moved
from eo_listener.sinks.ledger_sql import LedgerSql, moved_heads
from eo_listener.sinks.ledger_steps import LedgerStep, applied_batches, moved_at
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

FAR = 2**62
TP = TopicPartition("flights", 0)
WRITTEN = LedgerText(QUERY, 7, heads_of(entry_of({}, {TP: OffsetRange(3, 9)})))

heads = st.builds(
    Head,
    range=st.tuples(st.integers(0, FAR), st.integers(0, FAR)).map(
        lambda two: OffsetRange(min(two), max(two))
    ),
    topic_id=st.none() | st.text(),
    query_id=st.text(),
    run_id=st.text(),
    batch_id=st.integers(0, FAR),
)
partitions = st.builds(TopicPartition, st.text(), st.integers(0, 10_000)) | st.just(BATCHES)


@given(st.text(), st.integers(1, FAR), st.dictionaries(partitions, heads))
def test_a_ledger_comes_back(
    query: str, number: int, by_partition: dict[TopicPartition, Head]
) -> None:
    """With any names and offsets, in ASCII, and equal ledgers as equal texts."""
    ledger = LedgerText(query, number, by_partition)
    text = ledger.encode()
    assert LedgerText.decode(text) == ledger
    assert LedgerText.query_of(text) == query
    assert text.isascii()
    turned = dict(reversed(by_partition.items()))
    assert LedgerText(query, number, turned).encode() == text


def test_a_thousand_partitions_take_some_kilobytes() -> None:
    """The text goes into metadata that is written with each commit."""
    ranges = {TopicPartition("flights", at): OffsetRange(10**9, 10**9 + 1) for at in range(1000)}
    entry = entry_of({}, ranges, batch_id=10**6, run_id="0" * 36)
    assert len(LedgerText(QUERY, 1, heads_of(entry)).encode()) < 32_000


def _changed(change: Callable[[dict[str, Any]], object]) -> str:
    given = json.loads(WRITTEN.encode())
    change(given)
    return json.dumps(given)


def _set(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda given: given.__setitem__(name, value)


def _row(*row: object) -> Callable[[dict[str, Any]], object]:
    return lambda given: given["heads"].__setitem__("flights", [row])


@pytest.mark.parametrize("text", [*HOSTILE, "", "null", "[]", "{}", '{"v":1}', '{"v":2}'])
def test_other_texts_are_refused(text: str) -> None:
    """What is no ledger of this format is an error, and never an empty ledger."""
    with pytest.raises(FormatError, match="not have format 1") as refused:
        LedgerText.decode(text)
    with pytest.raises(FormatError, match="not have format 1"):
        LedgerText.query_of(text)
    assert "newer release" in str(refused.value.cause)


@pytest.mark.parametrize(
    "change",
    [
        _set("v", 2),
        _set("more", 0),
        _set("query", None),
        _set("number", 0),
        _set("number", "7"),
        _set("number", True),
        _set("moved", []),
        _set("moved", [["q", "r", 0]]),
        _set("moved", [["q", None, 0, None]]),
        _set("moved", [["q", "r", -1, None]]),
        _set("moved", [["q", "r", 0, 5]]),
        _set("heads", []),
        _set("heads", {"flights": 5}),
        lambda given: given.pop("heads"),
        _row(0, 3, 9),
        _row(0, 3, 9, -1),
        _row(0, 3, 9, 1),
        _row(0, 9, 3, 0),
        _row(0, -3, 9, 0),
        _row(0, 3.0, 9, 0),
        _row(0, 3, "9", 0),
        _row(True, 3, 9, 0),
        _set("heads", {"flights": [[0, 3, 9, 0], [0, 3, 9, 0]]}),
    ],
)
def test_a_changed_text_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    """A part that is missing, of another kind, or that contradicts another."""
    assert LedgerText.decode(_changed(lambda given: given)) == WRITTEN
    with pytest.raises(FormatError):
        LedgerText.decode(_changed(change))


LEDGER = LedgerSql(placeholder="?", moment="text")
TP = TopicPartition("flights", 0)
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for statement in (*LEDGER.create(), *LEDGER.create()):
            made.execute(statement)
        yield made


def prune(connection: sqlite3.Connection, kept: int) -> int:
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


T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
Heads = Mapping[TopicPartition, Head]


def head(start: int, until: int, batch: int, topic: str | None = "a", query: str = "q") -> Head:
    return Head(
        range=OffsetRange(start, until), topic_id=topic, query_id=query, run_id="r", batch_id=batch
    )


def of(*ledgers: Heads | None) -> list[tuple[TopicPartition, str, OffsetRange, OffsetRange | None]]:
    """What is applied where the ledger was each of these, the oldest first."""
    steps = [
        LedgerStep(after, before, 5, 1764000000000)
        for before, after in pairwise(ledgers)
        if after is not None
    ]
    found = applied_batches(reversed(steps))
    return [(one.partition, one.verdict, one.head.range, one.gap) for one in found]


def test_each_partition_by_itself() -> None:
    """In the order of offsets; one that a batch had nothing of is not there."""
    first = {T0: head(0, 5, 0), T1: head(3, 4, 0)}
    second = {T0: head(5, 9, 1), T1: head(4, 4, 1)}
    third = {T0: head(9, 10, 2), T1: head(4, 6, 2)}
    assert of({}, first, second, third) == [
        (T0, "first", OffsetRange(0, 5), None),
        (T0, "next", OffsetRange(5, 9), None),
        (T0, "next", OffsetRange(9, 10), None),
        (T1, "first", OffsetRange(3, 4), None),
        (T1, "next", OffsetRange(4, 6), None),
    ]
    moments = applied_batches([LedgerStep(first, {}, None, 1764000000123)])
    assert {one.applied_at for one in moments} == {"2025-11-24T16:00:00.123+00:00"}


def test_offsets_left_out_are_an_accepted_gap() -> None:
    """Sinks write no other one; and the audit finds nothing missing."""
    steps = [LedgerStep({T0: head(8, 9, 1)}, {T0: head(0, 5, 0)}, 1, 1)]
    (found,) = applied_batches(steps)
    assert (found.verdict, found.gap) == ("gap accepted", OffsetRange(5, 8))
    facts = read_history([found], {T0: found.head})
    assert (facts.missing, facts.gaps) == ({}, {T0: [OffsetRange(5, 8)]})


def test_another_topic_of_the_name_begins() -> None:
    """Wherever it does; of unknown ones nothing is concluded."""
    old = {T0: head(0, 5, 0)}
    assert of(old, {T0: head(7, 9, 1, "b")}) == [(T0, "first", OffsetRange(7, 9), None)]
    assert of(old, {T0: head(5, 9, 1, None)}) == [(T0, "next", OffsetRange(5, 9), None)]


def test_counted_batches() -> None:
    """Their ids are of plans; what counts is the checkpoint."""
    old = {BATCHES: head(0, 1, 0, "plan-0")}
    assert of(old, {BATCHES: head(1, 2, 1, "plan-1")})[0][1:] == ("next", OffsetRange(1, 2), None)
    other = head(0, 1, 0, "plan-0", query="other")
    assert of(old, {BATCHES: other})[0][1] == "first"


def test_what_is_not_known_is_not_concluded() -> None:
    """The oldest commit that is left may have moved any of its heads."""
    assert of(None, {T0: head(5, 9, 1)}, {T0: head(9, 10, 2)}) == [
        (T0, "next", OffsetRange(9, 10), None)
    ]


def test_when_each_head_was_moved() -> None:
    """By the batch that has moved it last, which need not be the newest."""
    first = {T0: head(0, 5, 0), T1: head(3, 4, 0)}
    second = {T0: head(5, 9, 1), T1: first[T1]}
    newest, oldest = LedgerStep(second, first, 1, 1764000060000), LedgerStep(first, {}, 1, 0)
    assert moved_at([newest, oldest]) == {
        T0: "2025-11-24T16:01:00.000+00:00",
        T1: "1970-01-01T00:00:00.000+00:00",
    }
    assert moved_at([newest]).keys() == {T0}
    assert moved_at([LedgerStep({}, None, 1, 0)]) == moved_at([]) == {}


def test_when_a_head_was_moved_is_known_without_the_batch_before() -> None:
    """Its batch is named by the head; of two checkpoints nothing tells which is newer."""
    known = {T0: head(5, 9, 8), T1: head(3, 4, 7)}
    assert moved_at([LedgerStep(known, None, 1, 0)]).keys() == {T0}
    unknown = {T0: head(5, 9, 0, query="new"), T1: head(3, 4, 7)}
    assert moved_at([LedgerStep(unknown, None, 1, 0)]) == {}


def test_only_partitions_that_another_driver_has_changed_are_named() -> None:
    """Neither a head that is as it was found, nor one that this entry has moved itself."""
    ours, found, moved_on, gone = (TopicPartition("flights", number) for number in range(4))
    seen = heads_of(entry_of({}, dict.fromkeys((ours, found, moved_on, gone), OffsetRange(0, 3))))
    entry = entry_of(seen, dict.fromkeys(seen, OffsetRange(3, 9)), batch_id=8)
    now = seen | {ours: entry.head(ours), moved_on: replace(seen[moved_on], batch_id=5)}
    del now[gone]
    error = ledger_changed("the table", entry, now, dict.fromkeys(now, "noon"))
    assert error.ranges == {moved_on: OffsetRange(3, 9), gone: OffsetRange(3, 9)}
    assert (
        "(flights-2 is at 3, moved by run run-1 in batch 5 at noon; flights-3 is missing)"
        in str(error)
    )
    assert "in batch 5; flights-3" in str(ledger_changed("the table", entry, now))


def test_all_partitions_are_named_where_no_single_one_differs() -> None:
    """The whole entry is in the ledger already, or every head is missing: at most three by name."""
    tps = [TopicPartition("flights", number) for number in range(4)]
    seen = heads_of(entry_of({}, dict.fromkeys(tps, OffsetRange(0, 3))))
    entry = entry_of(seen, dict.fromkeys(seen, OffsetRange(3, 9)), batch_id=8)
    there = {tp: entry.head(tp) for tp in seen}
    assert ledger_changed("the table", entry, there).ranges.keys() == seen.keys()
    assert "; and 1 more)" in str(ledger_changed("the table", entry, {}))


def test_a_ledger_is_refused_unless_it_is_as_it_was_found() -> None:
    """A head that has moved or has gone, or one where none was; partitions of no move are free."""
    one, other = (TopicPartition("flights", number) for number in range(2))
    seen = heads_of(entry_of({}, {one: OffsetRange(0, 3)}))
    entry = entry_of(seen, {one: OffsetRange(3, 9)}, batch_id=8)
    first = entry_of({}, {other: OffsetRange(0, 1)})
    refuse_moved("the table", entry, seen)
    refuse_moved("the table", entry, seen | heads_of(first))
    refuse_moved("the table", first, seen)
    moved, gone = {one: entry.head(one)}, heads_of(first)
    for mine, heads in ((entry, moved), (entry, gone), (first, heads_of(first))):
        with pytest.raises(ForeignWriterError, match="the ledger of 'flights' has changed"):
            refuse_moved("the table", mine, heads)
