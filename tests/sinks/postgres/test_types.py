"""Values of Spark, read back out of PostgreSQL as what they were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from eo_listener.sinks.postgres import PostgresSink
from tests.connect_server import either_spark
from tests.sinks.postgres.course import Database, write

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
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001  # a moment without zone
ODD = [math.nan, math.inf, -math.inf, -0.0]
SCHEMA = (
    "byte tinyint, short smallint, integer int, long bigint, float float, double double, "
    "decimal decimal(38,18), boolean boolean, text string, binary binary, date date, "
    "moment timestamp, `plain moment` timestamp_ntz, texts array<string>, longs array<bigint>, "
    "moments array<timestamp>, blobs array<binary>, nested array<array<int>>, "
    'struct struct<`a"b`: string, at: timestamp, plain: timestamp_ntz>, map map<string, double>, '
    "dates array<date>, odd array<double>, odd_floats array<float>"
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
    "plain moment": LAST,
    "texts": ["a,b", 'say "x"', "back\\slash", "", "NULL", None, "tab\tline\r\n"],
    "longs": [1, None, -(2**63)],
    "moments": [MOMENT, None],
    "blobs": [b"\x00\\\xff", b""],
    "nested": [[1, 2], [3], []],
    "struct": {'a"b': 'x\t"\\', "at": MOMENT, "plain": LAST},
    "map": {"k": 1.5, "none": None},
    "dates": [date(1, 1, 1), None],
    "odd": ODD,
    "odd_floats": ODD,
}


def test_every_type_comes_back(spark: SparkSession, db: Database) -> None:
    """A row of every type, its extremes and every character, and a row of nulls, are unchanged."""
    null = dict.fromkeys(FULL)
    frame = spark.createDataFrame([FULL, null], SCHEMA)
    with zone(spark, "Europe/Berlin"):
        write(PostgresSink(db.dsn, "types"), frame)
    with psycopg.connect(db.dsn, row_factory=psycopg.rows.dict_row) as link:
        link.execute("SET TimeZone = 'Asia/Kolkata'")
        full = link.execute("SELECT * FROM types WHERE long IS NOT NULL").fetchone()
        empty = link.execute("SELECT * FROM types WHERE long IS NULL").fetchone()
        kinds = link.execute(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_name = 'types' AND table_schema = current_schema()"
        ).fetchall()
    assert full is not None
    for name in ("odd", "odd_floats"):
        assert str(full[name]) == str(ODD)  # NaN is not equal to itself, and -0.0 to 0.0
        full[name] = ODD
    moments = {"at": "2024-10-27T00:30:00.123456Z", "plain": "9999-12-31T23:59:59.999999"}
    assert full == {**FULL, "struct": FULL["struct"] | moments, "float": pytest.approx(0.1)}
    assert empty == null
    made = {kind["column_name"]: kind["data_type"] for kind in kinds}
    assert made["moment"] == "timestamp with time zone"
    assert made["decimal"] == "numeric"
    assert {made[name] for name in ("nested", "struct", "map")} == {"jsonb"}
    assert made["longs"] == "ARRAY"


def test_columns_that_are_there_decide(spark: SparkSession, db: Database) -> None:
    """Rows fit into other types that hold them, by name; columns they lack get defaults."""
    db.script(
        "CREATE DOMAIN key AS uuid",
        "CREATE TABLE there (at timestamp, big numeric, id key, extra text DEFAULT 'd', "
        "doc json, tags varchar[], day date, codes text[])",
    )
    key = "6c7a6a2e-5a2c-4f6c-9d5e-6f1f3d1d2b11"
    frame = spark.createDataFrame(
        [(key, 2**40, MOMENT, ["x"], '{"a": 1}', date(2024, 2, 29), [7])],
        "id string, big long, at timestamp, tags array<string>, doc string, day date, "
        "codes array<int>",
    )
    write(PostgresSink(db.dsn, "there"), frame)
    (row,) = db.ask("SELECT id::text, big, at, extra, tags, doc, day, codes FROM there")
    utc = MOMENT.replace(tzinfo=None)
    assert row == (key, 2**40, utc, "d", ["x"], {"a": 1}, date(2024, 2, 29), ["7"])


def test_a_text_inside_a_document_that_is_not_utf8(spark: SparkSession, db: Database) -> None:
    """At any depth, as a key too, the row is refused by its column: nothing is replaced in it."""

    def text(at: int, else_: str) -> str:
        return f"if(id = {at}, cast(X'61ff' AS string), {else_})"

    replaced = "cast(X'efbfbd' AS string)"
    nested = f"array(map({text(2, 'string(id)')}, array({text(3, 'null')}, {text(4, 'null')})))"
    frame = spark.range(6).selectExpr(
        *("'flights' AS topic", "0 AS partition", "id AS offset"),
        f"named_struct('a`{{b', {text(1, replaced)}, 'c', {nested}, 'n', null) AS doc",
        "array(named_struct('at', id)) AS plain",
    )
    assert write(db.sink("docs", dead_letters="bad"), frame).dead_letters == 4
    assert db.ask('SELECT "offset", reason FROM bad ORDER BY 1') == [
        (offset, "the text in column 'doc' is not UTF-8") for offset in (1, 2, 3, 4)
    ]
    docs = [
        ({"a`{b": "\ufffd", "c": [{str(at): [None, None]}], "n": None}, [{"at": at}])
        for at in (0, 5)
    ]
    assert db.ask('SELECT doc, plain FROM docs ORDER BY "offset"') == docs


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


@pytest.mark.parametrize("name", ["Europe/Berlin", "Europe/Paris", "+05:45"])
def test_a_moment_is_that_moment_in_every_zone(
    spark: SparkSession, db: Database, name: str
) -> None:
    """Alone, in arrays, texts and JSON: what arrives depends on no zone, nor its summer time."""
    db.script(
        "CREATE TABLE t (at timestamptz, plain timestamp, told text, ats timestamptz[], "
        "plains timestamp[], tolds text[], doc jsonb)"
    )
    rows = ", ".join(f"({micros})" for micros in MICROS)
    frame = spark.sql(f"SELECT timestamp_micros(m) AS at FROM VALUES {rows} AS v(m)").selectExpr(
        *("at", "at AS plain", "at AS told", "array(at) AS ats", "array(at, null) AS plains"),
        *("array(at) AS tolds", "map('k', array(named_struct('at', at))) AS doc"),
    )
    with zone(spark, name):
        write(PostgresSink(db.dsn, "t"), frame)
        assert spark.conf.get("spark.sql.session.timeZone") == name
    moments = (
        *("at", "plain AT TIME ZONE 'UTC'", "told::timestamptz", "ats[1]"),
        *("plains[1] AT TIME ZONE 'UTC'", "tolds[1]::timestamptz"),
        "(doc #>> '{k,0,at}')::timestamptz",
    )
    micros = [f"(extract(epoch FROM {moment}) * 1000000)::bigint" for moment in moments]
    found = db.ask(f"SELECT {', '.join(micros)}, told = tolds[1] FROM t ORDER BY 1")
    assert found == [(*[one] * len(micros), True) for one in sorted(MICROS)]
