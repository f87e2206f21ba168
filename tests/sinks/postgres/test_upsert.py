"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from eo_listener.model.errors import EoListenerError, SettingsError, SinkError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.target_table import row
from tests.sinks.chapters.upsert import SqlUpsertChapter
from tests.sinks.postgres.course import PostgresTarget, ask, script
from tests.sinks.postgres.test_sifting import KV, rows_put

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


def test_two_writers_of_the_same_keys_do_not_deadlock(dsn: str) -> None:
    """20,000 keys of two queries, in opposite order: each waits for the other, and both write."""
    count, failed = 20_000, list[EoListenerError]()
    script(dsn, "CREATE TABLE t (k int PRIMARY KEY, v int)")
    with closing(PostgresSink(dsn, "t")) as sink:
        sink.applied(QUERY)  # the ledger exists from here on

    def writes(turn: int) -> None:
        sink = PostgresSink(dsn, "t", mode="upsert", keys="k", lock_timeout=60)
        keys = range(count) if turn else range(count - 1, -1, -1)
        try:
            for _ in range(3):
                both.wait()
                rows = ((key, turn, at) for at, key in enumerate(keys))
                rows_put(sink, KV, *rows, query=f"query {turn}")
        except EoListenerError as error:
            failed.append(error)
            both.abort()
        finally:
            sink.close()

    both = threading.Barrier(2)
    threads = [threading.Thread(target=writes, args=(turn,)) for turn in (0, 1)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []


@pytest.mark.parametrize("method", ["lost", "kept"])
def test_a_trigger_that_leaves_rows_out_fails_the_batch(dsn: str, method: Any) -> None:
    """A row that a trigger drops was not written; one that it need not write is there."""
    drop = "IF NEW.v = 13 THEN RETURN NULL; END IF; RETURN NEW;"
    script(
        dsn,
        "CREATE TABLE t (k int PRIMARY KEY, v int, doc json)",
        f"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {drop} END'",
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()"
        if method == "lost"
        else "CREATE TRIGGER no BEFORE UPDATE ON t FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    )
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k")
    if method == "kept":
        for _ in range(2):
            rows_put(sink, KV, (1, 13, 0), (2, 1, 1))
        assert ask(dsn, "SELECT k, v FROM t ORDER BY k") == [(1, 13), (2, 1)]
    else:
        with pytest.raises(SinkError, match="took 1 rows of 2"):
            rows_put(sink, KV, (1, 13, 0), (2, 1, 1))
        assert ask(dsn, "SELECT * FROM t") == []
        assert sink.applied(QUERY) == {}
    sink.close()


def test_a_trigger_may_change_a_row_and_skip_it(dsn: str) -> None:
    """What the table has of a key need not be what was given: an unchanged row is no lost one."""
    script(
        dsn,
        "CREATE TABLE t (k int PRIMARY KEY, email text)",
        "CREATE FUNCTION low() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN NEW.email = lower(NEW.email); RETURN NEW; END'",
        "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION low()",
        "CREATE TRIGGER b BEFORE UPDATE ON t FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    )
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k")
    kinds = {"k": "integer", "email": "string"}
    assert rows_put(sink, kinds, (1, "Ann@X.org", 0), (2, "B@x.org", 1)).rows == 2
    assert rows_put(sink, kinds, (1, "Ann@X.org", 10), (3, "c@x.org", 11)).rows == 1
    assert ask(dsn, "SELECT email FROM t ORDER BY k") == ["ann@x.org", "b@x.org", "c@x.org"]
    sink.close()
