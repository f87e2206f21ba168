"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eo_listener.model.errors import EoListenerError, SettingsError, SinkError
from eo_listener.model.ledger import Applied
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.course import ask, put, script
from tests.sinks.postgres.test_sifting import KV, rows_put
from tests.sinks.upsert_model import REFUSED, SPARK, Model, Row, batches, compare, record_batch

TABLE = f"CREATE TABLE t (k int PRIMARY KEY, version bigint, v int CHECK (v < {REFUSED})"
PLACES = ', topic text, "partition" int, "offset" bigint'


def rows_of(sink: PostgresSink, rows: Sequence[Row]) -> Applied:
    return put(sink, SPARK, (one for one in [record_batch(rows)]))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=batches(), versioned=st.booleans(), located=st.booleans())
def test_the_newest_row_of_a_key_stays(
    dsn: str, drawn: list[list[Row]], versioned: bool, located: bool
) -> None:
    """The table is what the model says after each batch, or none is the newest and it stays."""
    script(dsn, "DROP TABLE IF EXISTS t, eo_ledger, eo_ledger_history")
    script(dsn, f"{TABLE}{PLACES if located else ''})")
    sink = PostgresSink(
        dsn,
        "t",
        mode="upsert",
        keys="k",
        version_column="version" if versioned else None,
        dead_letters="dead",
    )
    try:
        compare(
            Model(versioned=versioned, located=located),
            drawn,
            lambda rows: rows_of(sink, rows),
            lambda: ask(dsn, "SELECT k, version, v FROM t ORDER BY k"),
        )
    finally:
        sink.close()


@pytest.mark.parametrize("offsets", [(9, 10), (99, 100)])
def test_an_offset_is_a_number_whatever_the_table_has(dsn: str, offsets: tuple[int, int]) -> None:
    """In a column of texts 9 is after 10: the order is that of Kafka's offsets all the same."""
    script(dsn, 'CREATE TABLE t (k int PRIMARY KEY, v int, "offset" text, "partition" text)')
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k")
    rows_put(sink, KV, *((1, offset, offset) for offset in offsets))
    assert ask(dsn, 'SELECT v, "offset", "partition" FROM t') == [
        (offsets[1], str(offsets[1]), "0")
    ]
    sink.close()


def test_rows_of_one_offset_are_refused(dsn: str) -> None:
    """Two rows that a transform made of one record have no order; the record is named."""
    script(dsn, "CREATE TABLE t (k int PRIMARY KEY, v int)")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k")
    with pytest.raises(SettingsError, match=r"same k .*offset 3 of flights-0.*version_column"):
        rows_put(sink, KV, (1, 1, 3), (1, 2, 3), (2, 1, 4))
    assert ask(dsn, "SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}
    sink.close()


def test_a_row_without_a_version_is_a_dead_letter(dsn: str) -> None:
    """Nothing says whether it is newer than another."""
    script(dsn, f"{TABLE})")
    sink = PostgresSink(
        dsn, "t", mode="upsert", keys="k", version_column="version", dead_letters="dead"
    )
    kinds = {"k": "integer", "version": "long"}
    done = rows_put(sink, kinds, *((at, at or None, at) for at in range(12)))
    assert (done.rows, done.dead_letters) == (11, 1)
    assert ask(dsn, "SELECT reason FROM dead") == ["version column 'version' is null"]
    sink.close()


@pytest.mark.parametrize(
    ("kind", "column", "said"),
    [
        ("string", "text", "Spark's type string"),
        ("double", "float8", "Spark's type double"),
        ("long", "text", "text in the table"),
    ],
)
def test_a_version_without_one_order_is_refused(
    dsn: str, kind: str, column: str, said: str
) -> None:
    """As texts 9 is after 10, and NaN is anywhere: such a column decides nothing."""
    script(dsn, f"CREATE TABLE t (k int PRIMARY KEY, version {column})")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k", version_column="version")
    arrow = {"string": pa.string(), "double": pa.float64(), "long": pa.int64()}
    rows = pa.record_batch(
        {"k": pa.array([1], pa.int32()), "version": pa.array([None], arrow[kind])}
    )
    with pytest.raises(SettingsError, match=f"version_column='version' is .*{said}"):
        put(sink, {"k": "integer", "version": kind}, (one for one in [rows]))
    sink.close()


def test_a_version_column_must_be_there(dsn: str) -> None:
    """In the rows and in the table: otherwise nothing could be compared."""
    script(dsn, "CREATE TABLE t (k int PRIMARY KEY, v int)")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k", version_column="offset")
    with pytest.raises(SettingsError, match="'offset', which the rows or the table lack"):
        rows_put(sink, KV, (1, 1, 0))
    sink.close()


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


def from_partitions(*places: tuple[int, int], doc: str = "{}") -> pa.RecordBatch:
    """The same row, from each (partition, offset)."""
    count = len(places)
    return pa.record_batch(
        {
            "k": pa.array([1] * count, pa.int32()),
            "version": pa.array([7] * count, pa.int64()),
            "doc": [doc] * count,
            "note": pa.nulls(count, pa.string()),
            "topic": ["flights"] * count,
            "partition": pa.array([one for one, _ in places], pa.int32()),
            "offset": pa.array([one for _, one in places], pa.int64()),
        }
    )


def test_a_record_that_was_produced_twice_is_no_tie(dsn: str) -> None:
    """Rows that are equal but for where they came from need no order: in one batch, and beside the
    table's, which stays. One that differs is tied, and the error says what helps.
    """
    kinds = {
        "k": "integer",
        "version": "long",
        "doc": "string",
        "note": "string",
        "topic": "string",
        "partition": "integer",
        "offset": "long",
    }
    script(dsn, f"CREATE TABLE t (k int PRIMARY KEY, version bigint, doc json, note text{PLACES})")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k", version_column="version")
    for places, wanted in ((((0, 5), (3, 0)), 1), (((4, 0),), 0), (((0, 9),), 1)):
        done = put(sink, kinds, (one for one in [from_partitions(*places)]))
        assert (done.rows, done.dead_letters) == (wanted, 0)
    assert ask(dsn, 'SELECT "partition", "offset" FROM t') == [(0, 9)]
    with pytest.raises(SettingsError, match=r"one in the table .*offset 1 of flights-4.*delete"):
        put(sink, kinds, (one for one in [from_partitions((4, 1), doc="[]")]))
    script(dsn, "DELETE FROM t")
    assert put(sink, kinds, (one for one in [from_partitions((4, 1), doc="[]")])).rows == 1
    script(dsn, 'ALTER TABLE t DROP "offset"')
    assert put(sink, kinds, (one for one in [from_partitions((0, 1))])).rows == 1
    assert ask(dsn, "SELECT doc::text FROM t") == ["{}"]
    sink.close()
