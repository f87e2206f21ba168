"""MERGE by key into a Delta table: the newest row stays, or the batch is refused."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.model.offsets import OffsetRange
from eo_listener.testing.made_up_entries import Heads, entry_of, heads_of, plan_of
from tests.sinks.delta.test_tables import TP, Table, table

__all__ = ["table"]

pytestmark = [pytest.mark.spark]


def row(key: int, word: str, offset: int, partition: int = 0, **more: str) -> str:
    """A row of SQL that comes from there."""
    rest = "".join(f", {value} {name}" for name, value in more.items())
    where = f"'flights' topic, {partition} partition, {offset}L offset"
    return f"{key} id, '{word}' word, {where}{rest}"


def apply(table: Table, batches: list[list[str]], **arguments: Any) -> list[int]:
    """Write batches, and say how many rows each has changed."""
    sink = table.sink(mode="upsert", keys="id", **arguments)
    heads: Heads = {}
    counts = []
    for number, rows in enumerate(batches):
        entry = entry_of(heads, {TP: OffsetRange(number, number + 1)}, batch_id=number)
        counts.append(sink.apply(table.rows(*rows), entry, plan_of(entry)).rows)
        heads = heads_of(entry)
    return counts


def test_the_newest_row_of_a_key_stays(table: Table) -> None:
    """In a batch by the greater offset, and over the table's; without one a row is inserted."""
    counts = apply(
        table,
        [
            [row(1, "old", 0), row(1, "new", 2), row(1, "mid", 1), row(2, "two", 3)],
            [row(2, "later", 4), row(3, "three", 5)],
        ],
    )
    assert counts == [2, 2]
    assert table.read("id", "word") == [(1, "new"), (2, "later"), (3, "three")]


@pytest.mark.slow
def test_an_older_version_does_not_replace_a_newer_one(table: Table) -> None:
    """Neither in a batch, nor late; of equal ones a later offset of the same partition does."""
    apply(
        table,
        [
            [row(1, "nine", 0, at="9"), row(1, "eight", 1, at="8"), row(2, "five", 2, at="5")],
            [row(1, "late", 3, at="7"), row(2, "again", 4, at="5")],
        ],
        version_column="at",
    )
    assert table.read("id", "word") == [(1, "nine"), (2, "again")]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(1, "a", 0), row(1, "b", 0, partition=1)], "several rows with the same id"),
        (["1 id, 'a' word", "1 id, 'b' word"], "do not say which offset"),
    ],
)
def test_ties_are_refused(table: Table, rows: list[str], said: str) -> None:
    """Rows that nothing orders fail the batch, and nothing is written."""
    with pytest.raises(SettingsError, match=said):
        apply(table, [rows])
    assert table.read("id") == []


@pytest.mark.slow
def test_a_tie_with_the_table_is_refused(table: Table) -> None:
    """The same version from another partition, and other values."""
    with pytest.raises(SettingsError, match="one in the table have the same id, at"):
        apply(
            table,
            [[row(1, "a", 0, at="5")], [row(1, "b", 7, partition=1, at="5")]],
            version_column="at",
        )
    assert table.read("word") == [("a",)]


@pytest.mark.slow
def test_equal_rows_are_no_tie(table: Table) -> None:
    """A record that was produced twice, in a batch and against the table."""
    apply(
        table,
        [
            [row(1, "a", 0, at="5"), row(1, "a", 4, partition=1, at="5")],
            [row(1, "a", 7, partition=2, at="5")],
        ],
        version_column="at",
    )
    assert table.read("word") == [("a",)]


def test_a_row_without_a_key_is_refused(table: Table) -> None:
    """It would be inserted again and again."""
    with pytest.raises(PoisonRowError, match=r"offset 3 of flights-0.*id is null"):
        apply(table, [[row(1, "a", 0), row(2, "b", 3).replace("2 id", "CAST(NULL AS int) id")]])


@pytest.mark.slow
def test_rows_are_deleted_where_the_newest_says_so(table: Table) -> None:
    """The row in the table goes; one that was never there is not inserted."""
    apply(
        table,
        [
            [row(1, "a", 0), row(2, "b", 1)],
            [row(1, "x", 2), row(1, "gone", 3), row(3, "gone", 4), row(2, "back", 5)],
        ],
        delete_when="word = 'gone'",
    )
    assert table.read("id", "word") == [(2, "back")]


@pytest.mark.slow
def test_a_map_is_no_obstacle(table: Table) -> None:
    """Columns that cannot be compared are compared as text, and names may be any."""
    given = "map('k', 1) AS `a``b.c`"
    apply(table, [[f"{row(1, 'a', 0)}, {given}", f"{row(1, 'b', 1)}, {given}"]])
    assert table.read("id", "word") == [(1, "b")]
