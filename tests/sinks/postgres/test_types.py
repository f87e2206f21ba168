"""Values of Spark, read back out of PostgreSQL as what they were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from eo_listener.model import errors
from eo_listener.sinks.postgres import PostgresSink
from tests.connect_server import either_spark
from tests.sinks.postgres.course import ask, script, write

__all__ = ["either_spark"]  # a fixture

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(either_spark: SparkSession) -> SparkSession:
    """Each test here runs in a session of this process, and in one of Spark Connect."""
    return either_spark


CHARACTERS = "".join(chr(one) for one in range(1, 0x250)) + "\u2028\ufeff\uffff\U0001f600\\N\\."
MOMENT = datetime(
    2024, 10, 27, 0, 30, 0, 123456, tzinfo=timezone.utc
)  # an hour that Berlin has twice
SCHEMA = (
    "byte tinyint, short smallint, integer int, long bigint, float float, double double, "
    "decimal decimal(38,18), boolean boolean, text string, binary binary, date date, "
    "moment timestamp, `plain moment` timestamp_ntz, texts array<string>, longs array<bigint>, "
    "moments array<timestamp>, blobs array<binary>, nested array<array<int>>, "
    'struct struct<`a"b`: string, at: timestamp>, map map<string, double>'
)
FULL: dict[str, Any] = {
    "byte": -128,
    "short": 32767,
    "integer": -(2**31),
    "long": 2**63 - 1,
    "float": 0.1,
    "double": 1.7976931348623157e308,
    "decimal": Decimal("12345678901234567890.123456789012345678"),
    "boolean": True,
    "text": CHARACTERS,
    "binary": bytes(range(256)),
    "date": date(1, 1, 1),
    "moment": MOMENT,
    "plain moment": datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001  # a moment without zone
    "texts": ["a,b", 'say "x"', "back\\slash", "", "NULL", None, "tab\tline\n"],
    "longs": [1, None, -(2**63)],
    "moments": [MOMENT, None],
    "blobs": [b"\x00\\\xff", b""],
    "nested": [[1, 2], [3], []],
    "struct": {'a"b': 'x\t"\\', "at": MOMENT},
    "map": {"k": 1.5, "none": None},
}


def test_every_type_comes_back(spark: SparkSession, dsn: str) -> None:
    """A row of every type, its extremes and every character, and a row of nulls, are unchanged."""
    null = dict.fromkeys(FULL)
    frame = spark.createDataFrame([FULL, null], SCHEMA)
    with zone(spark, "Europe/Berlin"):
        write(PostgresSink(dsn, "types"), frame)
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as link:
        link.execute("SET TimeZone = 'Asia/Kolkata'")
        full = link.execute("SELECT * FROM types WHERE long IS NOT NULL").fetchone()
        empty = link.execute("SELECT * FROM types WHERE long IS NULL").fetchone()
        kinds = link.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = 'types' AND table_schema = current_schema()"
        ).fetchall()
    assert full is not None
    struct = {'a"b': 'x\t"\\', "at": "2024-10-27T00:30:00.123456Z"}
    wanted = {**FULL, "struct": struct, "float": pytest.approx(0.1)}
    assert full == wanted
    assert empty == null
    made = {kind["column_name"]: kind["data_type"] for kind in kinds}
    assert made["moment"] == "timestamp with time zone"
    assert made["decimal"] == "numeric"
    assert {made[name] for name in ("nested", "struct", "map")} == {"jsonb"}
    assert made["longs"] == "ARRAY"


def test_floats_that_are_no_numbers(spark: SparkSession, dsn: str) -> None:
    """NaN and both infinities, single and double, arrive as such."""
    frame = spark.createDataFrame(
        [(float(x), float(x)) for x in ("nan", "inf", "-inf", "-0.0")], "d double, f float"
    )
    write(PostgresSink(dsn, "floats"), frame)
    for column in ("d", "f"):
        values = ask(dsn, f"SELECT {column} FROM floats")
        assert sum(math.isnan(value) for value in values) == 1
        assert {value for value in values if math.isinf(value)} == {math.inf, -math.inf}
        assert any(value == 0 and math.copysign(1, value) < 0 for value in values)


def test_columns_that_are_there_decide(spark: SparkSession, dsn: str) -> None:
    """Rows fit into other types that hold them, by name; columns they lack get defaults."""
    script(
        dsn,
        "CREATE DOMAIN key AS uuid",
        "CREATE TABLE there (at timestamp, big numeric, id key, extra text DEFAULT 'd', "
        "doc json, tags varchar[], day date)",
    )
    key = "6c7a6a2e-5a2c-4f6c-9d5e-6f1f3d1d2b11"
    frame = spark.createDataFrame(
        [(key, 2**40, MOMENT, ["x"], '{"a": 1}', date(2024, 2, 29))],
        "id string, big long, at timestamp, tags array<string>, doc string, day date",
    )
    write(PostgresSink(dsn, "there"), frame)
    (row,) = ask(dsn, "SELECT id::text, big, at, extra, tags, doc, day FROM there")
    utc = MOMENT.replace(tzinfo=None)
    assert row == (key, 2**40, utc, "d", ["x"], {"a": 1}, date(2024, 2, 29))


@pytest.mark.parametrize(
    ("spark_type", "column", "said"),
    [
        ("timestamp", "timestamp(3) with time zone", "rounded"),
        ("decimal(10,4)", "numeric(10,2)", "rounded"),
        ("array<timestamp>", "date[]", "date[]"),
        ("interval day to second", "interval", "cannot write"),
        ("array<int>", "text[]", None),
    ],
)
def test_what_would_change_a_value_is_refused(
    spark: SparkSession, dsn: str, spark_type: str, column: str, said: str | None
) -> None:
    """A column that could not hold the values unchanged is named before anything is written.

    Which are told in `test_columns`.
    """
    script(dsn, f"CREATE TABLE narrow (c {column})")
    frame = spark.createDataFrame([(None,)], f"c {spark_type}")
    sink = PostgresSink(dsn, "narrow")
    if said is None:
        write(sink, frame)
        return
    with pytest.raises(errors.SettingsError, match="'c'") as refused:
        write(sink, frame)
    assert said in str(refused.value)
    assert ask(dsn, "SELECT * FROM narrow") == []
    assert ask(dsn, "SELECT * FROM eo_ledger") == []


def test_a_year_that_arrow_cannot_spell(spark: SparkSession, dsn: str) -> None:
    """A date and a moment far off go into columns of text as Spark spells them."""
    script(dsn, "CREATE TABLE far (d text, t text, n text)")
    frame = spark.sql(
        "SELECT date_from_unix_date(20000000) AS d, timestamp_micros(4000000000000000000) AS t, "
        "CAST(timestamp_micros(0) AS timestamp_ntz) AS n"
    )
    write(PostgresSink(dsn, "far"), frame)
    ((day, moment, plain),) = ask(dsn, "SELECT d, t, n FROM far")
    assert day == "+56728-02-22"
    assert moment.startswith("+128724-")
    assert moment.endswith("+00")
    assert plain.startswith(("1970-01-01 ", "1969-12-31 "))


def test_a_moment_before_the_zones_were_straight(spark: SparkSession, dsn: str) -> None:
    """A moment of 1891, when Paris was 9 minutes and 21 seconds off, is that moment."""
    moment = datetime(1891, 1, 1, 12, 0, 1, 7, tzinfo=timezone.utc)
    micros = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    frame = spark.sql(f"SELECT timestamp_micros({micros}) AS at")
    write(PostgresSink(dsn, "old"), frame)
    assert ask(dsn, "SELECT at AT TIME ZONE 'UTC' FROM old") == [moment.replace(tzinfo=None)]


@contextmanager
def zone(spark: SparkSession, name: str) -> Iterator[None]:
    """The session's time zone, for a `with` block."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


MICROS = [
    0,
    1,
    -1,
    1729989000_123456,  # 02:30 in Berlin, in summer time
    1729992600_123456,  # an hour later: 02:30 in Berlin, in winter time
    -2493029999_000007,  # 1890, in local mean times
    -12219292800_000001,  # the last moment before the calendar was reformed
    -62135596800_000000,  # the first of year 1
    253402300799_999999,  # the last of year 9999
]


@pytest.mark.parametrize(
    "name", ["UTC", "Asia/Tokyo", "Europe/Berlin", "Europe/Paris", "America/St_Johns", "+05:45"]
)
def test_a_moment_is_that_moment_in_every_zone(spark: SparkSession, dsn: str, name: str) -> None:
    """Alone, in arrays, texts and JSON: what arrives depends on no zone, nor its summer time."""
    script(
        dsn,
        "CREATE TABLE t (at timestamptz, plain timestamp, told text, ats timestamptz[], "
        "plains timestamp[], tolds text[], doc jsonb)",
    )
    rows = ", ".join(f"({micros})" for micros in MICROS)
    frame = spark.sql(f"SELECT timestamp_micros(m) AS at FROM VALUES {rows} AS v(m)").selectExpr(
        *("at", "at AS plain", "at AS told", "array(at) AS ats", "array(at, null) AS plains"),
        *("array(at) AS tolds", "map('k', array(named_struct('at', at))) AS doc"),
    )
    with zone(spark, name):
        write(PostgresSink(dsn, "t"), frame)
        assert spark.conf.get("spark.sql.session.timeZone") == name
    moments = (
        *("at", "plain AT TIME ZONE 'UTC'", "told::timestamptz", "ats[1]"),
        *("plains[1] AT TIME ZONE 'UTC'", "tolds[1]::timestamptz"),
        "(doc #>> '{k,0,at}')::timestamptz",
    )
    micros = [f"(extract(epoch FROM {moment}) * 1000000)::bigint" for moment in moments]
    found = ask(dsn, f"SELECT {', '.join(micros)}, told = tolds[1] FROM t ORDER BY 1")
    assert found == [(*[one] * len(micros), True) for one in sorted(MICROS)]
