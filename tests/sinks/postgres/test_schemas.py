"""Which schema, which tables, what may hold a ledger; and names are data everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from typing import TypeAlias

import psycopg
import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import SettingsError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_repair import plan_rename
from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.catalog import check_durable, existing_tables
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.ledger_repair import PostgresLedgerRepair
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of, plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.postgres.course import (
    BARE,
    TP,
    USAGE,
    WRITE_METHODS,
    Database,
    next_entry,
    write,
    write_entry,
)

_PARTED = (
    "CREATE TABLE t (id bigint) PARTITION BY LIST (id); "
    "CREATE UNLOGGED TABLE t1 PARTITION OF t FOR VALUES IN (1)"
)
Schemas: TypeAlias = "tuple[str, str, str]"
_HEADS = "SELECT sink, next_offset FROM {}.eo_ledger"


@pytest.fixture
def schemas(db: Database) -> Iterator[Schemas]:
    """A way in without a search_path, and two schemas beside the test's own."""
    own = db.schema
    db.script(f"CREATE SCHEMA {own}_a", f"CREATE SCHEMA {own}_b")
    yield db.dsn.partition("?")[0], f"{own}_a", f"{own}_b"
    db.script(f"DROP SCHEMA {own}_a CASCADE", f"DROP SCHEMA {own}_b CASCADE")


def within(server: str, *path: str) -> str:
    return f"{server}?options=-csearch_path%3D{','.join(path)}"


@contextlib.contextmanager
def moving(sink: PostgresSink) -> Iterator[Connection]:
    """The transaction of the sink's next batch, without rows."""
    writer, entry = sink._writer(QUERY), next_entry(sink)
    link = sink._kept.connection(writer)
    with writer.transaction(link, entry):
        yield link


def test_tables_of_one_name_share_no_head(db: Database, schemas: Schemas) -> None:
    """Sinks whose search_paths differ are two in the ledger, also if each can see the other's."""
    server, a, b = schemas
    own = db.schema
    db.sink("other").applied(QUERY)  # a ledger that both can see
    first, second = (db.sink(BARE, dsn=within(server, one, own)) for one in (a, b))
    write_entry(first, next_entry(first))
    assert second.applied(QUERY) == {}
    write_entry(second, next_entry(second))
    assert db.ask(_HEADS.format(a)) == [(f"{a}.{BARE}", 10)]
    assert db.ask(_HEADS.format(b)) == [(f"{b}.{BARE}", 10)]
    assert db.ask("SELECT count(*) FROM eo_ledger") == [0]


def test_a_table_further_down_the_path_is_found(db: Database, schemas: Schemas) -> None:
    """A table that only the second schema of the search_path has is written there."""
    server, a, b = schemas
    db.script(f"CREATE TABLE {b}.{BARE} (id bigint, run text)")
    sink = db.sink(BARE, dsn=within(server, a, b))
    write_entry(sink, next_entry(sink))
    assert db.ask(f"SELECT count(*) FROM {b}.{BARE}") == [10]
    assert db.ask(_HEADS.format(b)) == [(f"{b}.{BARE}", 10)]


def test_a_search_path_of_nothing_is_named(db: Database, schemas: Schemas) -> None:
    """A role whose search_path has no schema is told to name one."""
    with pytest.raises(SettingsError, match="schema="):
        db.sink(dsn=within(schemas[0], "no_such")).applied(QUERY)


@pytest.mark.parametrize(
    "diversion",
    ["SET LOCAL search_path = {b}", "SET search_path = {b}", "CREATE TEMP TABLE {ledger}"],
)
def test_what_apply_does_to_names_moves_no_other_ledger(
    db: Database, schemas: Schemas, diversion: str
) -> None:
    """A search_path or a temporary table of the user's own statements diverts nothing of ours."""
    server, a, b = schemas
    other = db.sink(dsn=within(server, b))
    other.applied(QUERY)
    text = diversion.format(b=b, ledger=f"eo_ledger (LIKE {b}.eo_ledger INCLUDING ALL)")
    sink = db.sink(dsn=within(server, a))
    for batch in (1, 2):
        with moving(sink) as link:
            link.execute(text.replace("TABLE eo", "TABLE IF NOT EXISTS eo").encode())
        assert sink.applied(QUERY)[TP].range.until == 10 * batch
    assert other.applied(QUERY) == {}


@pytest.mark.parametrize(
    ("made", "is_durable"),
    [
        ("CREATE UNLOGGED TABLE t (id bigint)", False),
        ("CREATE TABLE t (id bigint)", True),
        (_PARTED, False),
        ("CREATE UNLOGGED TABLE u (id bigint); CREATE VIEW t AS SELECT id FROM u", False),
        (f"{_PARTED.replace(' t ', ' u ')}; CREATE VIEW t AS SELECT id FROM u", False),
        ("CREATE TABLE u (id bigint); CREATE VIEW t AS SELECT id FROM u", True),
    ],
)
def test_a_target_that_a_crash_empties_is_refused(
    db: Database, made: str, is_durable: bool
) -> None:
    """An unlogged target, or a part or a view of such, would lose its rows and keep its ledger."""
    db.script(*made.split(";"))
    sink = db.sink()
    writer = sink._writer(QUERY)
    link, schema = sink._kept.connection(writer), writer.access.schema
    found = existing_tables(link, schema, ["t", "nowhere"])
    assert list(found) == ["t"]
    with (
        contextlib.nullcontext() if is_durable else pytest.raises(SettingsError, match="SET LOGGED")
    ):
        check_durable(link, schema, "t", found["t"].not_durable)


@pytest.mark.parametrize("setting", ["table", "dead_letters"])
def test_a_dot_parts_no_schema_from_a_table(db: Database, schemas: Schemas, setting: str) -> None:
    """No table with a dot in its name is made beside the one that is meant; an old one is taken."""
    _, a, _ = schemas
    db.script(f"CREATE TABLE {a}.t (id bigint)")
    with pytest.raises(SettingsError, match=f"schema='{a}', {setting}='t'"):
        write(db.sink(**{setting: f"{a}.t"}), ArrowFrame.rows("id bigint", (1,)))
    assert db.ask(f"SELECT count(*) FROM pg_class WHERE relname = '{a}.t'") == [0]
    if setting == "table":
        db.script(f'CREATE TABLE "{a}.t" (id bigint)')
        assert write(db.sink(f"{a}.t"), ArrowFrame.rows("id bigint", (1,))).rows == 1


def test_a_domain_over_a_domain_is_what_is_beneath(db: Database) -> None:
    """With the modifier of the one that has it."""
    db.script(
        "CREATE DOMAIN short AS numeric(10, 2)",
        "CREATE DOMAIN price AS short",
        "CREATE DOMAIN tags AS text[]",
        "CREATE DOMAIN labels AS tags",
        "CREATE TABLE d (a price, b labels, c numeric(5, 1), d int)",
    )
    with db.sink()._writer(QUERY).open() as link:
        found = existing_tables(link, None, ["d"])["d"].columns
        link.execute("CREATE TEMP TABLE e (x numeric(10, 2))")
        plain = existing_tables(link, None, ["e"])["e"].columns["x"]
    assert (found["a"].base, found["a"].modifier, found["a"].type_name) == (
        *("numeric", plain.modifier),
        "price",
    )
    assert (found["b"].base, found["b"].element) == ("_text", "text")
    assert found["c"].modifier > 0
    assert (found["d"].base, found["d"].modifier) == ("int4", -1)


def test_an_unlogged_ledger_is_refused(db: Database) -> None:
    """A ledger that a crash would empty is no ledger."""
    sink = db.sink()
    sink.applied(QUERY)
    db.script("ALTER TABLE eo_ledger SET UNLOGGED")
    with pytest.raises(SettingsError, match=r"eo_ledger.*UNLOGGED"):
        sink.applied(QUERY)


@pytest.mark.parametrize(
    ("granted", "lacking"),
    [
        ("SELECT, INSERT, UPDATE", "DELETE ON"),
        ("SELECT", "INSERT, UPDATE ON"),
        ("SELECT, INSERT, UPDATE, DELETE", None),
    ],
)
def test_rights_on_the_ledger_are_asked_at_once(
    db: Database, granted: str, lacking: str | None
) -> None:
    """A role that could not prune the history in a hundred batches is told before the first."""
    db.sink().applied(QUERY)
    grants = (USAGE, f"GRANT {granted} ON eo_ledger, eo_ledger_history TO {{role}}")
    refused = pytest.raises(SettingsError, match=f"GRANT.*{lacking}")
    with db.role(*grants) as poor, contextlib.nullcontext() if lacking is None else refused:
        db.sink(dsn=poor, create=False).applied(QUERY)


@pytest.fixture
def published(db: Database) -> Iterator[None]:
    """Tables of which UPDATE and DELETE need a replica identity, as in one FOR ALL TABLES."""
    db.script(f"CREATE PUBLICATION p_{db.schema} FOR TABLES IN SCHEMA {db.schema}")
    yield
    db.script(f"DROP PUBLICATION p_{db.schema}")


@pytest.mark.usefixtures("published")
def test_a_ledger_in_a_publication(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    """It is moved, pruned and renamed; a history that cannot be pruned fails no batch."""
    sink = db.sink(BARE)

    def write_batch(number: int) -> None:
        ranges = {TP: OffsetRange(number, number + 1)}
        write_entry(sink, entry_of(sink.applied(QUERY), ranges, batch_id=number))

    write_batch(0)
    write_batch(100)
    with closing(PostgresLedgerRepair(db.dsn)) as repair:
        for name in ("renamed", QUERY):
            ((key, ledger),) = repair.reader.ledgers().items()
            repair.rename(plan_rename({key: ledger.heads}, key, sink=None, query=name))
    assert caplog.text == ""
    db.script("ALTER TABLE eo_ledger_history REPLICA IDENTITY NOTHING")
    write_batch(200)
    assert sink.applied(QUERY)[TP].range.until == 201
    assert "REPLICA IDENTITY FULL" in caplog.text


@pytest.mark.spark
@pytest.mark.usefixtures("published")
def test_a_staging_table_in_a_publication(spark: SparkSession, db: Database) -> None:
    """A logged one, of which an upsert deletes all but the newest row of a key."""
    sink = db.sink(write_method="staging", logged_staging=True, mode="upsert", keys="id")
    origin = "'flights' topic, 0 partition"
    frame = spark.sql(f"SELECT 1 id, {origin}, id offset FROM range(2)")
    assert write(sink, frame).rows == 1
    assert db.ask('SELECT "offset" FROM t') == [1]


def test_generated_columns_are_known(db: Database) -> None:
    """Columns that only the server fills are told from those with a default, enums from others."""
    db.script(
        "CREATE TYPE mood AS ENUM ('ok')",
        "CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED, m mood, ms mood[], "
        "c int generated always as identity, d int generated by default as identity)",
    )
    with db.sink()._writer(QUERY).open() as link:
        found = existing_tables(link, None, ["g"])["g"].columns
    assert {name for name, one in found.items() if one.generated} == {"b", "c"}
    assert (found["m"].base, found["ms"].element) == ("enum", "enum")


rows = ArrowFrame.rows
NASTY = "a\"b'c\n;--\\ %s {0} $1"
SCHEMA = f"s {NASTY}"


@pytest.mark.spark
@WRITE_METHODS
def test_every_name_is_data(spark: SparkSession, db: Database, write_method: str) -> None:
    """Schema, table, columns, keys, dead letters, query, topic: quotes and SQL in each of them."""
    db.script("CREATE TABLE precious (id int)", f"CREATE SCHEMA {quoted(SCHEMA)}")
    names = ["k" + NASTY, *(word[:60] for word in HOSTILE)]
    frame = spark.createDataFrame(
        [(*(f"{name} {row}" for name in names), "dead" if row else None) for row in range(2)],
        [*names, "eo_poison"],
    )
    given = {"keys": "k" + NASTY, "dead_letters": "d" + NASTY, "mode": "upsert"}
    sink = db.sink("t" + NASTY, schema=SCHEMA, write_method=write_method, **given)
    try:
        heads = sink.applied(NASTY)
        entry = entry_of(heads, {TopicPartition(NASTY, 0): OffsetRange(0, 2)}, query=NASTY)
        applied = sink.apply(frame, entry, plan_of(entry))
        assert (applied.rows, applied.dead_letters) == (1, 1)
        assert sink.applied(NASTY) == heads_of(entry)
        with psycopg.connect(db.dsn) as link:
            cursor = link.execute(f"TABLE {quoted(SCHEMA)}.{quoted('t' + NASTY)}".encode())
            assert [column.name for column in cursor.description or ()] == names
            assert cursor.fetchall() == [tuple(f"{name} 0" for name in names)]
    finally:
        db.script(f"DROP SCHEMA {quoted(SCHEMA)} CASCADE")
    assert db.ask("SELECT * FROM precious") == []


def test_create_false_says_what_to_type(db: Database) -> None:
    """Ledger, table and dead letters that are missing come with DDL that makes them."""
    sink = db.sink(create=False, dead_letters="dead")
    frame = rows("id% bigint", (1,))
    for _ in range(3):
        with pytest.raises(SettingsError, match="create=False") as refused:
            write(sink, frame)
        db.script(str(refused.value.fix).partition(": ")[2])
    assert write(sink, frame).rows == 1
