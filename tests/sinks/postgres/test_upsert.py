"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

import threading

import pytest

from eo_listener.errors import EoListenerError, SettingsError, SinkError
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.target_table import row
from tests.sinks.chapters.upsert import SqlUpsertChapter
from tests.sinks.postgres.course import KV, SUPPRESS, Database, PostgresTarget, put, script, trigger

PLACES = ', topic text, "partition" int, "offset" bigint'


class TestUpsert(PostgresTarget, SqlUpsertChapter):
    """In a schema of its own."""

    def test_values_without_an_equality_are_compared(self) -> None:
        """As json's: equal ones are no tie, others are; a null beside them is a value too."""
        script(self.dsn, f"CREATE TABLE t (id int PRIMARY KEY, at bigint, word json{PLACES})")
        again = [row(1, "{}", 5, at=7), row(1, "{}", 0, partition=3, at=7)]
        (done,) = self.upsert(again, version_column="at")
        assert (done.rows, self.read("partition", "offset")) == (1, [(0, 5)])
        with pytest.raises(SettingsError, match="same id, at"):
            self.upsert([row(1, "[]", 1, partition=4, at=7)], version_column="at")


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        ("uuid", ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11")),
        ("numeric", ("1.50", "01.5")),
        ("boolean", ("true", "t")),
        ("inet", ("::1", "0:0::1")),
    ],
)
def test_a_key_is_a_value_however_it_is_written(
    db: Database, kind: str, same: tuple[str, str]
) -> None:
    """In one batch and later: rows are staged in the types of the table, and compared there."""
    db.script(f"CREATE TABLE t (k {kind} PRIMARY KEY, v int)")
    sink = db.sink(mode="upsert", keys="k")
    columns = "k string, v int"
    assert put(sink, columns, (same[0], 1, 0), (same[1], 2, 1)).rows == 1
    assert put(sink, columns, (same[0], 3, 10)).rows == 1
    assert db.ask("SELECT v FROM t") == [3]


def test_two_writers_of_the_same_keys_do_not_deadlock(db: Database) -> None:
    """20,000 keys of two queries, in opposite order: each waits for the other, and both write."""
    count, failed = 20_000, list[EoListenerError]()
    db.script("CREATE TABLE t (k int PRIMARY KEY, v int)")
    db.sink().applied(QUERY)  # the ledger exists from here on
    both = threading.Barrier(2)

    def writes(turn: int) -> None:
        sink = db.sink(mode="upsert", keys="k", lock_timeout=60)
        keys = range(count) if turn else range(count - 1, -1, -1)
        try:
            for _ in range(3):
                both.wait()
                rows = ((key, turn, at) for at, key in enumerate(keys))
                put(sink, KV, *rows, query=f"query {turn}")
        except EoListenerError as error:
            failed.append(error)
            both.abort()

    threads = [threading.Thread(target=writes, args=(turn,)) for turn in (0, 1)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []


def test_a_trigger_that_leaves_rows_out_fails_the_batch(db: Database) -> None:
    """A row that a trigger drops was not written."""
    db.script(
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        *trigger("IF NEW.v = 13 THEN RETURN NULL; END IF; RETURN NEW;"),
    )
    sink = db.sink(mode="upsert", keys="k")
    with pytest.raises(SinkError, match="1 of 2 rows"):
        put(sink, KV, (1, 13, 0), (2, 1, 1))
    assert db.ask("SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}


def test_a_trigger_may_change_a_row_and_skip_it(db: Database) -> None:
    """What the table has of a key need not be what was given: an unchanged row is no lost one."""
    change = trigger("NEW.email = lower(NEW.email); RETURN NEW;", "BEFORE INSERT OR UPDATE")
    # json has no equality, which the server's own trigger does without
    table = "CREATE TABLE t (k int PRIMARY KEY, email text, doc json)"
    db.script(table, *change, SUPPRESS)
    sink, columns = db.sink(mode="upsert", keys="k"), "k int, email string"
    assert put(sink, columns, (1, "Ann@X.org", 0), (2, "B@x.org", 1)).rows == 2
    assert put(sink, columns, (1, "Ann@X.org", 10), (3, "c@x.org", 11)).rows == 1
    assert db.ask("SELECT email FROM t ORDER BY k") == ["ann@x.org", "b@x.org", "c@x.org"]
