"""What SQLite makes of values and of declarations, and what its errors mean; without Spark."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.errors import OutcomeUnknownError, SinkError, SinkLockedError
from eo_listener.sinks.sqlite import errors
from eo_listener.sinks.sqlite.errors import Holder
from eo_listener.sinks.sqlite.types import affinity, declared, flaws, keeps, unreadable, values

ZONED = pa.timestamp("us", "Europe/Berlin")
MOMENT = datetime(2024, 10, 27, 0, 30, 0, 123456, tzinfo=timezone.utc)
YEAR_10000 = 253_402_300_800_000_000  # in microseconds
YEAR_0 = -62_135_596_800_000_001


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (pa.bool_(), "INTEGER"),
        (pa.int8(), "INTEGER"),
        (pa.int64(), "INTEGER"),
        (pa.float32(), "REAL"),
        (pa.float64(), "REAL"),
        (pa.binary(), "BLOB"),
        (pa.large_binary(), "BLOB"),
        (pa.string(), "TEXT"),
        (pa.decimal128(38, 10), "TEXT"),
        (ZONED, "TEXT"),
        (pa.date32(), "TEXT"),
        (pa.list_(pa.int64()), "TEXT"),
    ],
)
def test_a_column_is_declared_so_that_it_keeps_its_values(kind: pa.DataType, wanted: str) -> None:
    """The declaration is also its affinity."""
    assert declared(kind) == affinity(wanted) == wanted
    assert keeps(wanted, kind)


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
        found = [row[0] for row in connection.execute("SELECT typeof(v) FROM t")]
    assert (
        found
        == {
            "INTEGER": ["integer", "integer"],
            "NUMERIC": ["integer", "integer"],
            "REAL": ["real", "real"],
            "TEXT": ["text", "text"],
            "BLOB": ["text", "integer"],
        }[affinity(declaration)]
    )


@pytest.mark.parametrize(
    ("kind", "kept_by"),
    [
        (pa.string(), {"TEXT", "BLOB", ""}),
        (pa.large_string(), {"TEXT", "BLOB", ""}),
        (pa.decimal128(5, 2), {"TEXT", "BLOB", ""}),
        (pa.float32(), {"REAL", "BLOB", "", "INTEGER", "NUMERIC"}),
        (pa.float64(), {"REAL", "BLOB", "", "INTEGER", "NUMERIC"}),
        (pa.int64(), {"INTEGER", "NUMERIC", "BLOB", "", "TEXT"}),
        (pa.int32(), {"INTEGER", "NUMERIC", "BLOB", "", "TEXT", "REAL"}),
        (pa.bool_(), {"INTEGER", "NUMERIC", "BLOB", "", "TEXT", "REAL"}),
        (pa.binary(), {"INTEGER", "NUMERIC", "BLOB", "", "TEXT", "REAL"}),
        (ZONED, {"INTEGER", "NUMERIC", "BLOB", "", "TEXT", "REAL"}),
        (pa.list_(pa.string()), {"INTEGER", "NUMERIC", "BLOB", "", "TEXT", "REAL"}),
    ],
)
def test_a_declaration_that_would_change_a_value_does_not_keep_it(
    kind: pa.DataType, kept_by: set[str]
) -> None:
    """A text of digits stays a text, and a whole number of 64 bits has more digits than a float."""
    for declaration in ("TEXT", "BLOB", "", "REAL", "INTEGER", "NUMERIC"):
        assert keeps(declaration, kind) is (declaration in kept_by), declaration


@pytest.mark.parametrize(
    ("column", "bound"),
    [
        (pa.array([1, None]), [1, None]),
        (pa.array([b"\x00", None]), [b"\x00", None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([Decimal("1E-10"), None], pa.decimal128(38, 10)), ["0.0000000001", None]),
        (
            pa.array([MOMENT.replace(tzinfo=None), None], pa.timestamp("us")),
            ["2024-10-27 00:30:00.123456", None],
        ),
        (
            pa.array([MOMENT, None], ZONED),
            ["2024-10-27 00:30:00.123456+00:00", None],
        ),
        (pa.array([date(1, 1, 1), None]), ["0001-01-01", None]),
        (pa.array([[1, None], None]), ["[1, null]", None]),
        (pa.array([{"a": "\u00fc"}, None]), ['{"a": "\u00fc"}', None]),
    ],
)
def test_values_are_bound_as_sqlite_keeps_them(column: pa.Array, bound: list[Any]) -> None:
    """Decimals and moments as texts, of which none loses a digit; moments in UTC."""
    found = values(column)
    assert [
        one.replace(" ", "") if pa.types.is_nested(column.type) and one else one for one in found
    ] == [one.replace(" ", "") if pa.types.is_nested(column.type) and one else one for one in bound]


def moments(kind: pa.DataType, *microseconds: int | None) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us")).cast(kind)


@pytest.mark.parametrize("kind", [pa.timestamp("us"), ZONED])
def test_moments_outside_the_years_of_a_calendar_are_flaws(kind: pa.DataType) -> None:
    """Years have four digits, in UTC whatever the zone; the first and the last count."""
    inside = moments(kind, YEAR_0 + 1, None, YEAR_10000 - 1)
    assert flaws("c", inside, key=False) == {}
    beyond = moments(kind, YEAR_0, 0, YEAR_10000)
    found = flaws("c", beyond, key=False)
    assert {row: "'c'" in why and "1 to 9999" in why for row, why in found.items()} == {
        0: True,
        2: True,
    }


def test_dates_outside_the_years_are_flaws() -> None:
    """A date outside the years 1 to 9999 cannot be written."""
    days = pa.array([-719_163, -719_162, None, 2_932_896, 2_932_897], pa.int32()).cast(pa.date32())
    assert list(flaws("c", days, key=False)) == [0, 4]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_only_nan_is_a_flaw_of_a_float(kind: pa.DataType) -> None:
    """Infinity is kept, and null is null."""
    column = pa.array([1.5, float("nan"), None, float("inf")], kind)
    ((row, why),) = flaws("c", column, key=False).items()
    assert row == 1
    assert "'c' is NaN" in why
    assert flaws("c", column.slice(2), key=False) == {}


def test_a_key_is_not_null() -> None:
    """Two rows with a null key are two rows; elsewhere null is a value."""
    column = pa.array([1, None, None])
    assert flaws("c", column, key=False) == {}
    assert flaws("c", column, key=True) == dict.fromkeys((1, 2), "key column 'c' is null")
    assert flaws("c", pa.array([1, 2]), key=True) == {}


def test_moments_inside_of_others_that_python_cannot_read() -> None:
    """They are named by their rows."""
    items = pa.ListArray.from_arrays([0, 1, 2], moments(pa.timestamp("us"), 0, YEAR_10000))
    ((row, why),) = unreadable("c", items).items()
    assert row == 1
    assert "'c'" in why
    assert unreadable("c", items.slice(0, 1)) == {}


# Errors


@pytest.mark.parametrize(
    ("text", "busy"),
    [
        ("database is locked", True),
        ("database table is locked: t", True),
        ("locking protocol", True),
        ("database or disk is full", False),
    ],
)
def test_a_lock_is_recognised_by_its_text(text: str, busy: bool) -> None:
    """Each of SQLite's three messages about a lock is recognised as one."""
    error = sqlite3.OperationalError(text)
    assert errors.is_busy(error) is busy


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("database or disk is full", "disk is full"),
        ("attempt to write a readonly database", "right to write"),
        ("unable to open database file", "may not write the folder"),
        ("file is not a database", "of another kind"),
        ("Database disk image is malformed", "damaged"),
        ("not authorized", "apply="),
        ("foreign key mismatch - t", "foreign key"),
        ("disk I/O error", "disk failed"),
        ("no such column: x", "nothing of it"),
    ],
)
def test_what_stopped_a_batch_is_said_with_its_cause(text: str, cause: str) -> None:
    """In SQLite's own words first, in whatever case they are."""
    error = errors.explained(sqlite3.OperationalError(text), Path("f.db"), waited=5.0)
    assert type(error) is SinkError
    assert text in error.problem
    assert cause in str(error.cause)


def test_a_lock_is_said_with_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process is the one to end; of others all are named, and the first can be ended."""
    shown = [
        Holder(7, stopped=False, command="python"),
        Holder(8, stopped=False, command="sqlite3"),
    ]
    locked = sqlite3.OperationalError("database is locked")
    for found, problem, fix in (
        ([], "f.db was locked for 5 s", "lsof f.db"),
        (shown, "it is open in process 7 (python), process 8 (sqlite3)", "end it: kill 7"),
        ([shown[0]._replace(stopped=True)], "by process 7 (python, stopped)", "kill -9 7"),
    ):
        monkeypatch.setattr(errors, "holders", lambda path, found=found: found)
        error = errors.explained(locked, Path("f.db"), waited=5.0)
        assert isinstance(error, SinkLockedError)
        assert problem in error.problem
        assert fix in str(error.fix)


REFUSED = sqlite3.IntegrityError("FOREIGN KEY constraint failed")


@pytest.mark.parametrize(
    ("error", "rolled_back", "kind"),
    [
        (REFUSED, True, SinkError),
        (REFUSED, False, OutcomeUnknownError),
        (sqlite3.OperationalError("database is locked"), True, SinkLockedError),
        (sqlite3.OperationalError("database is locked"), False, OutcomeUnknownError),
        (sqlite3.OperationalError("database or disk is full"), True, SinkError),
        (sqlite3.OperationalError("database or disk is full"), False, OutcomeUnknownError),
        (sqlite3.OperationalError("disk I/O error"), True, OutcomeUnknownError),
    ],
)
def test_a_failed_commit_is_known_only_where_it_met_no_sync(
    error: sqlite3.Error, rolled_back: bool, kind: type[SinkError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the transaction is surely over; else the ledger in the file must be asked."""
    monkeypatch.setattr(errors, "holders", lambda path: [])
    found = errors.at_commit(error, Path("f.db"), rolled_back=rolled_back, waited=5.0)
    assert type(found) is kind
    assert ("at COMMIT" in found.problem) is (error is REFUSED and rolled_back)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO t VALUES (1, 5)", r"UNIQUE constraint failed: t\.k"),
        ("INSERT INTO t VALUES (NULL, 5)", r"NOT NULL constraint failed: t\.k"),
        ("INSERT INTO t VALUES (2, -5)", "CHECK constraint failed: v > 0"),
        ("INSERT INTO t VALUES (3, 99)", ".* trigger .*"),
    ],
)
def test_a_refused_row_is_reported_without_its_values(statement: str, told: str) -> None:
    """What SQLite says names columns; what a trigger raises may hold anything."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            "CREATE TABLE t (k NOT NULL UNIQUE, v CHECK (v > 0)); INSERT INTO t VALUES (1, 1);"
            "CREATE TRIGGER g BEFORE INSERT ON t WHEN NEW.v = 99 "
            "BEGIN SELECT RAISE(ABORT, 'secret'); END"
        )
        with pytest.raises(errors.REFUSED) as raised:
            connection.execute(statement)
    found = errors.why(raised.value)
    assert found.reason == str(raised.value)
    assert re.fullmatch(told, str(found.redacted))
    error = errors.explained(raised.value, Path("f.db"), waited=5.0)
    assert re.search(told, error.problem)
    assert "secret" not in error.problem


def test_a_transaction_that_the_database_ended_is_reported() -> None:
    """Rows before the refused one are gone with it: it must not go on."""
    with closing(sqlite3.connect(":memory:")) as connection:
        failed = sqlite3.IntegrityError("UNIQUE constraint failed: t.k")
        with pytest.raises(SinkError, match="itself: UNIQUE"):
            errors.check_open(connection, failed)
        connection.execute("CREATE TABLE t (k)")
        connection.execute("INSERT INTO t VALUES (1)")
        errors.check_open(connection, failed)
