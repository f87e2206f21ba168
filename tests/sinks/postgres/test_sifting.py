"""Rows that PostgreSQL refuses, keys that come twice, and users' SQL: without Spark."""

from __future__ import annotations

import traceback
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from psycopg.rows import dict_row

from eo_listener.model.errors import PoisonRowError, SettingsError, SinkError
from eo_listener.model.ledger import Applied
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.types import Existing, column_format
from eo_listener.sinks.postgres.user_sql import ending
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.course import TP, ask, put, script

ARROW = {"string": pa.string(), "integer": pa.int32(), "long": pa.int64()}
ORIGIN = {"topic": "string", "partition": "integer", "offset": "long"}


def rows_put(
    sink: PostgresSink, fields: dict[str, str], *rows: tuple[Any, ...], query: str = QUERY
) -> Applied:
    """Write rows as the sink's next batch; the last value of each is its offset."""
    kinds = {**fields, **ORIGIN}
    full = [(*row[:-1], *TP, row[-1]) for row in rows]
    arrays = [
        pa.array([row[at] for row in full], ARROW[kind]) for at, kind in enumerate(kinds.values())
    ]
    batches = (one for one in [pa.RecordBatch.from_arrays(arrays, list(kinds))])
    return put(sink, kinds, batches, query=query)


KV = {"k": "integer", "v": "integer"}


def test_rows_without_a_key_are_no_duplicates(dsn: str) -> None:
    """Rows whose key is null are all written where the table takes them."""
    script(dsn, "CREATE TABLE t (k int UNIQUE, v int)")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k")
    assert rows_put(sink, KV, *((None, at, at) for at in range(5))).rows == 5
    assert ask(dsn, "SELECT v FROM t ORDER BY v") == [0, 1, 2, 3, 4]
    sink.close()


@pytest.mark.parametrize("name", ["s", "r", "eo_row", "eo_batch"])
def test_a_column_by_the_name_of_an_alias(dsn: str, name: str) -> None:
    """A column that is called as something in our statements is still a column."""
    script(dsn, f"CREATE TABLE t (k int PRIMARY KEY, {name} int CHECK ({name} < 100))")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k", dead_letters="dead")
    assert (
        rows_put(sink, {"k": "integer", name: "integer"}, (1, 500, 2), (2, 5, 3)).dead_letters == 1
    )
    assert f'"{name}": 500' in ask(dsn, 'SELECT "row" FROM dead')[0]
    sink.close()


def test_columns_of_ours_are_refused(dsn: str) -> None:
    """A column that staged rows have beside their own cannot be the user's."""
    with pytest.raises(SettingsError, match="'eo_attempt'"):
        rows_put(PostgresSink(dsn, "t", apply=["SELECT 1"]), {"eo_attempt": "long"}, (1, 0))


def test_offsets_that_are_none_trace_nothing() -> None:
    """Columns called topic, partition and offset of other types are data, not where a row is
    from.
    """
    target = PostgresSink("host=h", "t", mode="upsert", keys="k")._target
    kinds = {"k": "long", "topic": "string", "partition": "string", "offset": "date"}
    schema = {"fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    assert not ColumnLayout.of(schema, None, target, direct=False).traced


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_value_too_large_for_its_index_is_a_dead_letter(dsn: str, mode: Any) -> None:
    """A key that no page of an index holds is its row's fault: the others are written."""
    script(dsn, "CREATE TABLE t (k text PRIMARY KEY, v int)")
    keys = "k" if mode == "upsert" else ()
    sink = PostgresSink(dsn, "t", mode=mode, keys=keys, dead_letters="dead")
    large = Random(7).randbytes(4000).hex()  # no secret, but nothing to compress
    done = rows_put(sink, {"k": "string", "v": "integer"}, ("a", 1, 0), (large, 2, 1), ("b", 3, 2))
    assert (done.rows, done.dead_letters) == (2, 1)
    assert ask(dsn, "SELECT k FROM t ORDER BY k") == ["a", "b"]
    assert ask(dsn, "SELECT reason FROM dead")[0].startswith("index row size")
    sink.close()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_error_quotes_no_value(dsn: str, mode: Any) -> None:
    """What a refused row holds is in no error, nor in one that hangs on it: errors are logged."""
    value = "secret" * len(mode)  # or a traceback would show the line that has it
    script(dsn, "CREATE TABLE t (k int PRIMARY KEY, v uuid)")
    keys = "k" if mode == "upsert" else ()
    sink = PostgresSink(dsn, "t", mode=mode, keys=keys)
    with pytest.raises(PoisonRowError, match=r"offset 1 .*uuid") as refused:
        rows_put(sink, {"k": "integer", "v": "string"}, (1, None, 0), (2, f"'{value}\"{value}", 1))
    said = "".join(traceback.format_exception(refused.value)) + repr(refused.value.__context__)
    assert value not in said
    sink.close()


@pytest.mark.parametrize("method", ["trigger", "statement", "function"])
def test_nor_does_one_of_the_users_own_sql(dsn: str, method: str) -> None:
    """An error of a trigger, a statement or a function of the user brings no row along."""
    value = "secret" * len(method)
    script(
        dsn,
        "CREATE TABLE t (k int, v text)",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION ''%'', NEW.v; END'",
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()",
    )
    text = "SELECT v::uuid FROM eo_batch"
    does: Any = {"statement": [text], "function": lambda link, _: link.execute(text)}.get(method)
    sink = PostgresSink(dsn, "t", apply=does)
    with pytest.raises((SinkError, PoisonRowError), match=r"uuid|P0001") as refused:
        rows_put(sink, {"k": "integer", "v": "string"}, (1, value, 0))
    assert value not in "".join(traceback.format_exception(refused.value))
    sink.close()


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("raised", ["RAISE EXCEPTION '%', NEW.v", "ASSERT NEW.v < 9, NEW.v::text"])
def test_a_row_that_a_trigger_refuses_is_a_dead_letter(dsn: str, mode: Any, raised: str) -> None:
    """Only that row; the trigger's text, which may hold a value, is in the table alone."""
    script(
        dsn,
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN IF NEW.v > 99 THEN {raised}; END IF; RETURN NEW; END$$",
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()",
    )
    value = 4242 * 100 + 42
    keys = "k" if mode == "upsert" else ()
    rows = [(1, 1, 0), (2, value, 1), (3, 3, 2)]
    sink = PostgresSink(dsn, "t", mode=mode, keys=keys, dead_letters="dead")
    assert rows_put(sink, KV, *rows).dead_letters == 1
    assert ask(dsn, "SELECT k FROM t ORDER BY k") == [1, 3]
    assert ask(dsn, 'SELECT "offset", reason FROM dead') == [(1, str(value))]
    sink.close()
    script(dsn, "TRUNCATE t")
    sink = PostgresSink(dsn, "t", mode=mode, keys=keys)
    with pytest.raises(PoisonRowError, match=r"offset 1 .*P000") as refused:
        rows_put(sink, KV, *rows)
    assert str(value) not in "".join(traceback.format_exception(refused.value))
    sink.close()


def test_a_double_key_is_named_without_its_value(dsn: str) -> None:
    """The name of a constraint is told, the key that breaks it is not."""
    script(dsn, "CREATE TABLE t (k int PRIMARY KEY, v int, UNIQUE (v))")
    value = 4242 * 100 + 42
    sink = PostgresSink(dsn, "t", mode="upsert", keys="k")
    with pytest.raises(PoisonRowError, match="t_v_key") as refused:
        rows_put(sink, KV, (1, value, 0), (2, value, 1))
    assert str(value) not in "".join(traceback.format_exception(refused.value))
    sink.close()


def test_the_first_refused_row_is_enough_to_fail(dsn: str) -> None:
    """Without a table for dead letters no more than one row is searched for."""
    script(dsn, "CREATE TABLE t (k int CHECK (k < 0), v int)")
    sink = PostgresSink(dsn, "t")
    seen: list[str] = []
    with hooked(seen.append), pytest.raises(PoisonRowError, match="offset 0 "):
        rows_put(sink, KV, *((at, at, at) for at in range(4096)))
    assert seen.count("sink.copying") <= 13
    sink.close()


def test_any_reason_can_be_kept(dsn: str) -> None:
    """A reason with NUL, which the server does not take, is kept with it escaped."""
    sink = PostgresSink(dsn, "t", dead_letters="dead")
    script(dsn, "CREATE TABLE t (k int)")
    fields = {"k": "integer", "eo_poison": "string"}
    assert rows_put(sink, fields, (1, None, 0), (2, "bad: A\x00B", 1)).dead_letters == 1
    assert ask(dsn, "SELECT reason FROM dead") == ["bad: A\\x00B"]
    sink.close()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("-- done\nCOMMIT", "COMMIT"),
        ("/* x */ rollback;", "ROLLBACK"),
        ("INSERT INTO a VALUES ('it''s -- not'); commit", "COMMIT"),
        ("DO $x$ BEGIN NULL; END; $x$; ABORT", "ABORT"),
        ("ROLLBACK TO SAVEPOINT a", None),
        ("SELECT ';COMMIT', \"; END\", $$; COMMIT$$ -- ; COMMIT", None),
        ("SELECT CASE 1 WHEN 1 THEN 2 END", None),
    ],
)
def test_what_ends_a_transaction_is_seen(text: str, word: str | None) -> None:
    """COMMIT and its like are seen behind comments and other statements, and in no literal."""
    assert ending(text) == word


@pytest.mark.parametrize("method", ["execute", "cursor", "script", "bytes"])
def test_a_function_cannot_send_commit(dsn: str, method: str) -> None:
    """COMMIT of a user's function is refused before it is sent, so nothing of it stays."""
    script(dsn, "CREATE TABLE a (k int)")

    def end(connection: Any, entry: Any) -> None:
        connection.execute("INSERT INTO a SELECT k FROM eo_batch")
        if method == "cursor":
            connection.cursor().execute("-- done\nCOMMIT")
        else:
            text = "SELECT 1; COMMIT" if method == "script" else "COMMIT"
            connection.execute(text.encode() if method == "bytes" else text)

    sink = PostgresSink(dsn, "a", apply=end)
    for _ in range(2):
        with pytest.raises(SinkError, match="sent COMMIT"):
            rows_put(sink, KV, (1, 1, 0))
    assert ask(dsn, "SELECT * FROM a") == []
    assert sink.applied(QUERY) == {}
    sink.close()


def test_a_function_may_change_how_it_reads(dsn: str) -> None:
    """A row factory that a function sets is gone after it, and its savepoints work."""
    script(dsn, "CREATE TABLE a (k int)")

    def read(connection: Any, entry: Any) -> None:
        connection.row_factory = dict_row
        with connection.transaction():
            found = connection.execute("SELECT k FROM eo_batch").fetchone()
        connection.execute("INSERT INTO a VALUES (%s)", (found["k"],))

    sink = PostgresSink(dsn, "a", apply=read)
    for _ in range(2):
        rows_put(sink, KV, (7, 1, 0))
    assert ask(dsn, "SELECT k FROM a") == [7, 7]
    sink.close()


@pytest.mark.parametrize(
    ("spark", "base", "element", "modifier", "fits"),
    [
        ({"type": "array", "elementType": "decimal(10,5)"}, "_numeric", "numeric", 655366, False),
        ({"type": "array", "elementType": "timestamp"}, "_timestamptz", "timestamptz", 0, False),
        ({"type": "array", "elementType": "timestamp"}, "_timestamptz", "timestamptz", -1, True),
        ({"type": "array", "elementType": "string"}, "_date", "date", -1, False),
        ("string", "timestamp", None, -1, False),
        ("string", "timestamptz", None, 0, False),
        ("string", "date", None, -1, False),
        ("string", "money", None, -1, False),
        ("string", "float4", None, -1, False),
        ("string", "name", None, -1, False),
        ("string", "char", None, -1, False),
        ("string", "numeric", None, 655366, False),
        ("string", "numeric", None, -1, True),
        ("string", "enum", None, -1, True),
        ("string", "varchar", None, 7, True),
    ],
)
def test_a_lossy_column_is_refused(
    spark: Any, base: str, element: str | None, modifier: int, fits: bool
) -> None:
    """Elements of arrays are checked as values are, and a text goes into no type that rounds."""
    there = Existing(base=base, element=element, modifier=modifier, type_name="it")
    if fits:
        assert column_format("c", spark, there).postgres == "it"
    else:
        with pytest.raises(SettingsError, match="'c'"):
            column_format("c", spark, there)


def test_a_struct_with_a_name_twice_is_refused() -> None:
    """However deep: jsonb would keep the last of its values only."""
    part = {"name": "v", "type": "long"}
    struct: dict[str, Any] = {"type": "struct", "fields": [part, part]}
    for kind in (
        struct,
        {"type": "array", "elementType": struct},
        {"type": "map", "keyType": "string", "valueType": struct},
        {"type": "struct", "fields": [{"name": "inner", "type": struct}]},
    ):
        for there in (None, Existing(base="jsonb", element=None, modifier=-1, type_name="jsonb")):
            with pytest.raises(SettingsError, match="field named 'v'"):
                column_format("c", kind, there)
    once = {"type": "struct", "fields": [part, {"name": "V", "type": "long"}]}
    assert column_format("c", once).postgres == "jsonb"


def test_a_generated_column_is_named() -> None:
    """Rows that have a column which only the server fills are told so."""
    there = Existing(base="int4", element=None, modifier=-1, type_name="integer", generated=True)
    with pytest.raises(SettingsError, match="GENERATED ALWAYS"):
        column_format("c", "integer", there)
