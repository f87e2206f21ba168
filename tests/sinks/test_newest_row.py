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


@pytest.mark.parametrize(
    ("version", "origin", "there", "said"),
    [
        (None, ("t", 1, 7), False, r"the same a, b \(.* offset 7 of t-1"),
        (None, ("t", 1, 7), False, "version_column="),
        (None, ("t", None, 7), False, r"the same a, b\. "),
        (None, None, False, "[Kk]eep topic"),
        ("v", ("t", 1, 7), False, "the same a, b, v .*or from one record.*Give v values"),
        (
            "v",
            ("t", 1, 7),
            True,
            r"row of the table .* a, b, v .*different partitions\. Fix: .*delete",
        ),
    ],
)
def test_a_tie_says_what_to_do(version: Any, origin: Any, there: bool, said: str) -> None:
    """By what the rows tell of themselves."""
    error = tie(("a", "b"), version, origin, in_table=there)
    assert re.search(said, str(error)), str(error)
    assert ("one row for each key" in str(error.fix)) is not there
    assert "long" in str(unordered("v", "of type string").fix)
