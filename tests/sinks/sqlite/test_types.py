"""Types in SQLite: each value of Spark's comes back as it was, or is refused; and its errors."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import (
    OutcomeUnknownError,
    PoisonRowError,
    SettingsError,
    SinkError,
    SinkLockedError,
)
from eo_listener.sinks.sqlite import SqliteSink, errors
from eo_listener.sinks.sqlite.errors import Holder
from eo_listener.sinks.sqlite.types import affinity, flaws, keeps
from tests.connect_server import either_spark
from tests.sinks.sqlite.database import ask, write

__all__ = ["either_spark"]  # a fixture


@pytest.fixture
def spark(either_spark: SparkSession) -> SparkSession:
    """Each test here runs in a session of this process, and in one of Spark Connect."""
    return either_spark


DIGITS, BERLIN = "-12345678901234567890123456.789", "2026-03-29 01:59:59.123456"
# What Spark computes, what SQLite holds, and its type there.
KEPT = [
    ("true", 1, "integer"),
    ("-128Y", -128, "integer"),
    ("32767S", 32767, "integer"),
    ("-9223372036854775807L - 1", -(2**63), "integer"),
    ("0.1D", 0.1, "real"),
    ("cast('Infinity' as double)", float("inf"), "real"),
    ("cast(0.5 as float)", 0.5, "real"),
    ("cast('0.0000000001' as decimal(38,10))", "0.0000000001", "text"),
    (f"cast('{DIGITS}' as decimal(38,3))", DIGITS, "text"),
    ("'it\\'s \"so\" \u017elu\u0165 \U0001f40d'", 'it\'s "so" \u017elu\u0165 \U0001f40d', "text"),
    ("concat('a', char(0), 'b')", "a\x00b", "text"),
    ("''", "", "text"),
    ("X'00ff80'", b"\x00\xff\x80", "blob"),
    ("date'0001-01-01'", "0001-01-01", "text"),
    (f"timestamp'{BERLIN} Europe/Berlin'", "2026-03-29 00:59:59.123456+00:00", "text"),
    ("timestamp_ntz'2026-03-29 02:30:00'", "2026-03-29 02:30:00.000000", "text"),
    ("cast(null as int)", None, "null"),
    ("null", None, "null"),
]


@pytest.mark.spark
def test_each_type_is_kept(spark: SparkSession, path: Path) -> None:
    """Integers, floats, decimals, texts, bytes, moments and nulls are what they were in Spark."""
    columns = [f"{spark_sql} AS c{number}" for number, (spark_sql, *_) in enumerate(KEPT)]
    frame = spark.range(1).selectExpr(*columns)
    sink = SqliteSink(path, "t")
    write(sink, frame)
    sink.close()
    names = [f"c{number}" for number in range(len(KEPT))]
    (values,) = ask(path, f"SELECT {', '.join(names)} FROM t")
    (types,) = ask(path, f"SELECT {', '.join(f'typeof({name})' for name in names)} FROM t")
    assert list(zip(values, types, strict=True)) == [(value, kind) for _, value, kind in KEPT]


@pytest.mark.spark
def test_nested_values_become_json(spark: SparkSession, path: Path) -> None:
    """Arrays, structs and maps are JSON, in which SQLite's own functions can look."""
    frame = spark.range(1).selectExpr(
        "array(1, null, 3) AS a",
        "named_struct('x', 1.50, 'y', date'2020-01-02', 'z', X'ff') AS s",
        "map('k', array(cast('NaN' as double))) AS m",
        "cast(null as array<int>) AS n",
    )
    sink = SqliteSink(path, "t")
    write(sink, frame)
    sink.close()
    ((a, s, m, n),) = ask(path, "SELECT a, s, m, n FROM t")
    assert json.loads(a) == [1, None, 3]
    assert json.loads(s) == {"x": "1.50", "y": "2020-01-02", "z": "/w=="}
    assert json.loads(m) == {"k": ["nan"]}
    assert n is None
    assert ask(path, "SELECT json_extract(s, '$.x') FROM t") == ["1.50"]


@pytest.mark.spark
@pytest.mark.parametrize("sql", ["make_interval(1)", "interval '1' year", "interval '1' day"])
def test_a_type_without_a_form_is_refused(spark: SparkSession, path: Path, sql: str) -> None:
    """The column is named, with what to do about it."""
    sink = SqliteSink(path, "t")
    sink.applied("flights")
    with pytest.raises(SettingsError, match=r"'odd'.*cast"):
        write(sink, spark.range(1).selectExpr(f"{sql} AS odd"))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("cast('NaN' as double)", "NaN"),
        ("timestamp_micros(-9223372036854775807L)", "outside the years"),
        ("date_add(date'9999-12-31', 1)", "outside the years"),
        ("array(timestamp_micros(9223372036854775806L))", "unreadable time"),
        ("cast(X'61ff62' as string)", "not UTF-8"),
    ],
)
def test_a_value_that_would_change_is_poison(
    spark: SparkSession, path: Path, sql: str, why: str
) -> None:
    """What SQLite would turn into something else is refused, by where it came from."""
    frame = spark.range(3).selectExpr(
        "'flights' AS topic", "0 AS partition", "id AS offset", f"if(id = 1, {sql}, null) AS odd"
    )
    sink = SqliteSink(path, "t")
    with pytest.raises(PoisonRowError, match=why) as caught:
        write(sink, frame)
    assert (caught.value.partition, caught.value.offset) == (("flights", 0), 1)
    aside = SqliteSink(path, "t", dead_letters="bad")
    assert (applied := write(aside, frame)).dead_letters == 1
    assert applied.rows == 2
    aside.close()
    assert ask(path, "SELECT offset FROM t") == [0, 2]
    assert ask(path, 'SELECT "offset" FROM bad') == [1]


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "Europe/Paris"])
def test_a_moment_is_that_moment_in_every_zone(spark: SparkSession, path: Path, zone: str) -> None:
    """Alone and in JSON, and cut into tasks: it depends on no zone, nor its summer time."""
    # 02:30 in Berlin twice, a moment in local mean times, the first of year 1
    micros = (1729989000_123456, 1729992600_123456, -2493029999_000007, -62135596800_000000)
    rows = ", ".join(f"({one})" for one in micros)
    frame = spark.sql(f"SELECT timestamp_micros(m) AS at FROM VALUES {rows} AS v(m)").selectExpr(
        "at", "map('k', array(named_struct('at', at))) AS doc"
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        write(SqliteSink(path, "t", task_rows=2), frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    start = datetime(1970, 1, 1, tzinfo=timezone.utc)
    wanted = sorted(start + timedelta(microseconds=one) for one in micros)
    found = ask(path, "SELECT at, json_extract(doc, '$.k[0].at') FROM t ORDER BY at")
    for nested in (False, True):
        assert [datetime.fromisoformat(row[nested]) for row in found] == wanted


ZONED = pa.timestamp("us", "Europe/Berlin")
YEAR_10000 = 253_402_300_800_000_000  # in microseconds
YEAR_0 = -62_135_596_800_000_001


@pytest.mark.parametrize(
    "declaration",
    [
        *("", "INT", "bigint", "POINT", "FLOATING POINT", "VARCHAR(10)", "CLOB", "text", "CHARINT"),
        *("BLOB", "REAL", "FLOAT", "DOUBLE PRECISION", "DECIMAL(10,2)", "STRING", "DATETIME"),
    ],
)
def test_an_affinity_is_what_sqlite_itself_applies(declaration: str) -> None:
    """Told by what becomes of a text that reads as a number."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t (v {declaration})")
        connection.execute("INSERT INTO t VALUES ('1.0'), (1)")
        found = [kind for (kind,) in connection.execute("SELECT typeof(v) FROM t")]
    kinds = {"INTEGER": "integer", "NUMERIC": "integer", "REAL": "real", "TEXT": "text"}
    kind = kinds.get(affinity(declaration))
    assert found == ([kind, kind] if kind else ["text", "integer"])


NUMBERS = {"REAL", "INTEGER", "NUMERIC"}


@pytest.mark.parametrize(
    ("kinds", "changed_by"),
    [
        ((pa.string(), pa.large_string(), pa.decimal128(5, 2)), NUMBERS),
        ((pa.float32(), pa.float64()), {"TEXT"}),
        ((pa.int64(),), {"REAL"}),
        ((pa.int32(), pa.bool_(), pa.binary(), ZONED, pa.list_(pa.string())), set()),
    ],
)
def test_a_declaration_that_would_change_a_value_does_not_keep_it(
    kinds: tuple[pa.DataType, ...], changed_by: set[str]
) -> None:
    """A text of digits stays a text, and a whole number of 64 bits has more digits than a float."""
    for declaration, kind in product({"TEXT", "BLOB", "", *NUMBERS}, kinds):
        assert keeps(declaration, kind) is (declaration not in changed_by), (declaration, kind)


def moments(kind: pa.DataType, *microseconds: int | None) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us")).cast(kind)


@pytest.mark.parametrize("kind", [pa.timestamp("us"), ZONED])
def test_moments_outside_the_years_of_a_calendar_are_flaws(kind: pa.DataType) -> None:
    """Years have four digits, in UTC whatever the zone; the first and the last count."""
    inside = moments(kind, YEAR_0 + 1, None, YEAR_10000 - 1)
    assert flaws("c", inside, key=False) == {}
    beyond = moments(kind, YEAR_0, 0, YEAR_10000)
    found = flaws("c", beyond, key=False)
    assert found.keys() == {0, 2}
    assert all("'c'" in why and "1 to 9999" in why for why in found.values())


# Errors


@pytest.mark.parametrize(
    "text", ["database is locked", "database table is locked: t", "locking protocol"]
)
def test_a_lock_is_recognised_by_its_text(text: str) -> None:
    """Each of SQLite's three messages about a lock is recognised as one."""
    assert errors.is_busy(sqlite3.OperationalError(text))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("database or disk is full", "disk is full"),
        ("attempt to write a readonly database", "may not write to"),
        ("unable to open database file", "write to the folder"),
        ("unable to open database: other.db", "nothing of it"),
        ("disk I/O error", "disk failed"),
        ("no such column: x", "nothing of it"),
    ],
)
def test_what_stopped_a_batch_is_said_with_its_cause(text: str, cause: str) -> None:
    """In SQLite's own words first; `test_bad_days` has those that a real file brings."""
    error = errors.explain(sqlite3.OperationalError(text), Path("f.db"), waited=5.0)
    assert type(error) is SinkError
    assert text in error.problem
    assert cause in str(error.cause)


def test_a_lock_is_said_with_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process is the one to end; of others all are named, and the first can be ended."""
    shown = [Holder(pid, stopped=False, command=name) for pid, name in ((7, "python"), (8, "sh"))]
    for found, problem, fix in (
        ([], "f.db was locked for 5 s", "lsof f.db"),
        (shown, "open in process 7 (python), process 8 (sh)", "run kill 7"),
        ([shown[0]._replace(stopped=True)], "by process 7 (python, stopped)", "kill -9 7"),
    ):
        monkeypatch.setattr(errors, "holders", lambda path, found=found: found)
        error = errors.explain(LOCKED, Path("f.db"), waited=5.0)
        assert isinstance(error, SinkLockedError)
        assert problem in error.problem
        assert fix in str(error.fix)


REFUSED = sqlite3.IntegrityError("FOREIGN KEY constraint failed")
LOCKED = sqlite3.OperationalError("database is locked")
FULL = sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (REFUSED, SinkError),
        (LOCKED, SinkLockedError),
        (FULL, SinkError),
        (sqlite3.OperationalError("disk I/O error"), OutcomeUnknownError),
    ],
)
def test_a_failed_commit_is_known_only_where_it_met_no_sync(
    error: sqlite3.Error, kind: type[SinkError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the transaction is surely over; else the ledger in the file must be asked."""
    monkeypatch.setattr(errors, "holders", lambda path: [])
    for rolled_back, wanted in ((True, kind), (False, OutcomeUnknownError)):
        found = errors.explain_commit(error, Path("f.db"), rolled_back=rolled_back, waited=5.0)
        assert type(found) is wanted
        assert ("at COMMIT" in found.problem) is (error is REFUSED and rolled_back)
