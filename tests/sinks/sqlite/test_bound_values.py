"""What SQLite makes of values and of declarations, and what its errors mean; without Spark."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from eo_listener.errors import OutcomeUnknownError, SinkError, SinkLockedError
from eo_listener.sinks.sqlite import errors
from eo_listener.sinks.sqlite.errors import Holder
from eo_listener.sinks.sqlite.types import affinity, flaws, keeps

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
