"""Which row of a key is the newest, asked of a database in memory."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from eo_listener.sinks.newest_row import Newest, tie, unordered

COLUMNS = "k, v, eo_topic, eo_partition, eo_offset"


def placed(
    *rows: tuple[Any, ...],
    version: str | None = None,
    traced: bool = True,
    values: tuple[str, ...] = ("rowid",),
) -> list[Any]:
    """Place and tie of each row, in the order given."""
    newest = Newest(keys=("k",), version=version, values=values, traced=traced)
    with closing(sqlite3.connect(":memory:")) as link:
        link.execute(f"CREATE TABLE t ({COLUMNS})")
        link.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        asked = f"SELECT {newest.place()}, {newest.tied()} FROM t ORDER BY rowid"
        return link.execute(asked).fetchall()


def test_the_greater_offset_of_a_partition_is_newer() -> None:
    """Among the rows of its key; a row alone is never tied, wherever it is from."""
    rows = [(1, 0, "t", 0, 9), (1, 0, "t", 0, 10), (2, 0, None, None, None)]
    assert placed(*rows) == [(2, 0), (1, 0), (1, 0)]


@pytest.mark.parametrize(
    "other",
    [
        ("t", 1, 10),  # another partition
        ("u", 0, 10),  # another topic
        ("t", 0, 9),  # the same record
        (None, 0, 10),  # one that is not known
        ("t", None, 10),
        ("t", 0, None),
    ],
)
def test_what_has_no_order_is_tied(other: tuple[Any, ...]) -> None:
    """Both rows are, so that either may be the one that is asked for."""
    rows = [(1, 0, "t", 0, 9), (1, 0, *other)]
    assert [tied for _, tied in placed(*rows)] == [1, 1]
    assert [tied for _, tied in placed(*rows, traced=False)] == [1, 1]


def test_rows_that_do_not_say_where_they_are_from_are_tied() -> None:
    """Whatever order their offsets would have given; a row alone is not."""
    rows = [(1, 0, "t", 0, 9), (1, 0, "t", 0, 10), (2, 0, "t", 0, 11)]
    assert [tied for _, tied in placed(*rows, traced=False)] == [1, 1, 0]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("version", [None, "v"])
def test_rows_that_say_the_same_are_not_tied(version: Any, traced: bool) -> None:
    """Wherever they come from; a null is a value too. The same one is always the first."""
    twice = [(1, 5, "t", 0, 7), (1, 5, "t", 3, 7)]
    for values in (("k", "v"), ()):
        places = placed(*twice, version=version, traced=traced, values=values)
        assert [tied for _, tied in places] == [0, 0]
    assert [at for at, _ in placed(*twice, values=("v",))] == [2, 1]
    assert [at for at, _ in placed(*reversed(twice), values=("v",))] == [1, 2]
    for other in (6, None):
        rows = [*twice, (1, other, "t", 1, 8)]
        assert [tied for _, tied in placed(*rows, values=("k", "v"), traced=traced)] == [1, 1, 1]
    empty = [(1, None, "t", 0, 7), (1, None, "t", 3, 0)]
    assert [tied for _, tied in placed(*empty, values=("k", "v"), traced=traced)] == [0, 0]


def test_a_version_decides_first() -> None:
    """A greater one before any offset; only rows of one version can be tied."""
    rows = [(1, 5, "t", 0, 1), (1, 4, "t", 1, 9), (1, 4, "t", 0, 8), (2, 4, "t", 0, 7)]
    assert placed(*rows, version="v")[0] == (1, 0)
    assert [tied for _, tied in placed(*rows, version="v")] == [0, 1, 1, 0]
    same = [(1, 5, "t", 0, 1), (1, 5, "t", 0, 2)]
    assert placed(*same, version="v") == [(2, 0), (1, 0)]
    assert placed(*rows[:1], (1, 6, None, None, None), version="v", traced=False) == [
        (2, 0),
        (1, 0),
    ]


@pytest.mark.parametrize(
    ("version", "origin", "there", "said"),
    [
        (
            None,
            ("t", 1, 7),
            False,
            r"the same a, b \(.* offset 7 of t-1",
        ),
        (None, ("t", 1, 7), False, "version_column="),
        (None, ("t", None, 7), False, r"the same a, b\. "),
        (None, None, False, "[Kk]eep topic, partition and offset"),
        ("v", ("t", 1, 7), False, "the same a, b, v .*or from one record.*Give v values"),
        (
            "v",
            ("t", 1, 7),
            True,
            r"in the table .* a, b, v .*several partitions\. Fix: .*delete",
        ),
    ],
)
def test_a_tie_says_what_to_do(version: Any, origin: Any, there: bool, said: str) -> None:
    """By what the rows tell of themselves."""
    error = tie(("a", "b"), version, origin, there=there)

    assert re.search(said, str(error)), str(error)
    assert ("one row for each key" in str(error.fix)) is not there
    assert "long" in str(unordered("v", "of type string").fix)
