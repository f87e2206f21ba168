"""Which columns of a frame are written, and what becomes of a row that is not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.arrow_schema import arrow_schema
from eo_listener.sinks.dead_letters import DeadLetter, DeadLetterSql, RowFilter
from eo_listener.testing.made_up_entries import entry_of

UTC = timezone.utc


def test_columns_are_chosen_by_name() -> None:
    """The mark never, the origin where there is room, all others always."""
    names = ("topic", "v", "offset", "eo_poison")
    assert RowFilter.of(names, None) == RowFilter(columns=("topic", "v", "offset"), marked=True)
    assert RowFilter.of(names, ("offset", "v", "more")).columns == ("v", "offset")
    assert RowFilter.of(("v",), ("v",)).marked is False
    with pytest.raises(SettingsError, match="no column 'v'"):
        RowFilter.of(names, ("V", "topic", "offset"))
    with pytest.raises(SettingsError, match="no column 'w', 'x', 'y', 'z'; it has 'v'"):
        RowFilter.of(("x", "z", "w", "y", "topic", "v"), ("v",))
    with pytest.raises(SettingsError, match="no column that could"):
        RowFilter.of(("topic", "eo_poison"), ("v",))


def test_a_mark_in_another_case_is_refused() -> None:
    """It would be data, and its rows would pass for fine."""
    for target in (None, ("v", "EO_POISON")):
        with pytest.raises(SettingsError, match=r"'EO_POISON'.*eo_poison"):
            RowFilter.of(("v", "EO_POISON"), target)


def test_a_reason_may_hold_anything() -> None:
    """What no store takes as text is escaped in reason and topic; the row is still a letter."""
    reasons, topics = (
        pa.Array.from_buffers(pa.string(), 2, pa.array(values).buffers())
        for values in ([b"bad: \xff", b"bad: \x00"], [b"t\xff", b"t\x00"])
    )
    rows = pa.record_batch({"topic": topics, "v": [1, 2], "eo_poison": reasons})
    good, dead = RowFilter.of(rows.schema.names, None).sift(rows)
    assert good.num_rows == 0
    assert [(one.reason, one.topic) for one in dead] == [
        ("bad: \\xff", None),
        ("bad: \\x00", "t\\x00"),
    ]
    assert [json.loads(one.row) for one in dead] == [
        {"topic": "t\\xff", "v": 1},
        {"topic": "t\x00", "v": 2},
    ]


def test_a_struct_with_a_name_twice_is_refused() -> None:
    """Wherever it is hidden: JSON would keep the last of its values only."""
    part = {"name": "a", "type": "long"}
    struct = {"type": "struct", "fields": [part, part]}
    for kind in (struct, {"type": "array", "elementType": struct}):
        with pytest.raises(SettingsError, match="field named 'a'"):
            arrow_schema({"fields": [{"name": "v", "type": kind}]})


def test_marked_rows_are_sifted_out() -> None:
    """An empty reason is a reason; null is none; all other rows keep their order."""
    rows = pa.record_batch({"v": [1, 2, 3, 4], "eo_poison": [None, "odd", "", None]})
    good, dead = RowFilter.of(rows.schema.names, None).sift(rows)
    assert good.column("v").to_pylist() == [1, 4]
    assert [(one.reason, one.row, one.topic) for one in dead] == [
        ("odd", '{"v": 2}', None),
        ("", '{"v": 3}', None),
    ]


def test_a_dead_row_is_whole() -> None:
    """Its JSON holds every column, in a form that JSON has."""
    rows = pa.record_batch(
        {
            "topic": ["t"],
            "partition": pa.array([3], pa.int32()),
            "offset": [2**40],
            "at": pa.array([datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "price": pa.array([Decimal("1.50")]),
            "raw": [b"\xff"],
            "nan": [float("nan")],
            "tags": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    letter = RowFilter.of(rows.schema.names, None).letter(rows, 0, "why")
    assert (letter.topic, letter.partition, letter.offset) == ("t", 3, 2**40)
    assert json.loads(letter.row) == {
        "topic": "t",
        "partition": 3,
        "offset": 2**40,
        "at": "2026-01-02T00:00:00+00:00",
        "price": "1.50",
        "raw": "/w==",
        "nan": "nan",
        "tags": {"k": 1},
    }
    assert letter.error("x").offset == 2**40


@pytest.mark.parametrize("origin", [{}, {"topic": ["t"], "partition": [1], "offset": [7]}])
def test_an_error_holds_no_value_of_the_row(origin: dict[str, list[Any]]) -> None:
    """Errors are logged; where the row came from is told as far as it is known."""
    rows = pa.record_batch({"v": ["secret"], **origin})
    error = RowFilter.of(rows.schema.names, None).letter(rows, 0, "too long").error("the table")
    assert "secret" not in str(error)
    assert "too long" in str(error)
    assert ("offset 7 of t-1" in str(error)) is bool(origin)


def test_text_that_is_no_text_is_sifted_out() -> None:
    """Bytes that Spark cast to a string are refused, escaped in the JSON, wherever they hide."""
    raw = pa.array([b"fine", b"\xffodd"]).buffers()
    broken = pa.Array.from_buffers(pa.string(), 2, raw)
    nested = pa.StructArray.from_arrays([broken], ["inner"])
    for column in (broken, nested):
        rows = pa.record_batch({"id": [1, 2], "v": column})
        good, (dead,) = RowFilter.of(rows.schema.names, None).sift(rows)
        assert good.column("id").to_pylist() == [1]
        assert dead.reason == "the text in column 'v' is not UTF-8"
        assert json.loads(dead.row)["id"] == 2


@pytest.mark.parametrize(
    ("topic", "partition", "known"),
    [("t", 1, True), ("t", None, False), (None, 1, False), (None, None, False)],
)
def test_half_an_origin_is_none(topic: str | None, partition: int | None, known: bool) -> None:
    """A topic without a partition names no place; the error says what to keep in the rows."""
    letter = DeadLetter(topic=topic, partition=partition, offset=7, reason="odd", row="{}")
    tp, where = letter.place()
    assert (tp == ("t", 1)) is known
    assert ("offset 7 of t-1" in where) is known
    error = letter.error("x")
    assert ("topic, partition and offset" in str(error.fix)) is not known
    assert (error.partition, error.offset) == (tp, 7)


def test_the_reason_for_logs_is_another_one() -> None:
    """Where a reason may hold a value, what is told has none; NUL is escaped in it as well."""
    given: dict[str, Any] = {"topic": None, "partition": None, "offset": None, "row": "{}"}
    assert DeadLetter(reason="odd", **given).shown == "odd"
    both = DeadLetter(reason="v is 4711", redacted="v is\x00 odd", **given)
    assert both.shown == "v is\\x00 odd"
    assert "4711" not in str(both.error("x"))


def test_a_row_without_a_version_is_sifted_out() -> None:
    """Where there is a version column; the others keep their order."""
    rows = pa.record_batch({"k": [1, 2, 3], "v": [None, 5, None]})
    good, dead = RowFilter.of(("k", "v"), None, "v").sift(rows)
    assert good.column("k").to_pylist() == [2]
    assert [(one.reason, one.row) for one in dead] == [
        ("version column 'v' is null", '{"k": 1, "v": null}'),
        ("version column 'v' is null", '{"k": 3, "v": null}'),
    ]
    assert RowFilter.of(("k", "v"), None).sift(rows)[0].num_rows == 3
    for target in (None, ("k",)):
        with pytest.raises(SettingsError, match="version_column names"):
            RowFilter.of(("k",), target, "v")


def test_a_mark_is_a_text() -> None:
    """Any other column of that name would mark nothing, or everything."""
    rows = pa.record_batch({"v": [1], "eo_poison": [True]})
    with pytest.raises(SettingsError, match="holds bool, not text"):
        RowFilter.of(rows.schema.names, None).sift(rows)
    large = pa.record_batch({"v": [1, 2], "eo_poison": pa.array([None, "odd"], pa.large_string())})
    assert len(RowFilter.of(large.schema.names, None).sift(large)[1]) == 1
    none = pa.record_batch({"v": [1], "eo_poison": pa.array([None], pa.string())})
    good, dead = RowFilter.of(none.schema.names, None).sift(none)
    assert (good.num_rows, dead) == (1, [])


def test_names_that_differ_in_case_are_refused() -> None:
    """A store may take them for one column."""
    with pytest.raises(SettingsError, match="'A', 'a'"):
        RowFilter.of(("a", "b", "A"), None)


@pytest.mark.parametrize("told", [False, True])
def test_a_letter_goes_into_its_table_whole(told: bool) -> None:
    """With the batch that it is of; in a table of ours also what may be shown of the reason."""
    made = DeadLetterSql(table="dead", placeholder="?", moment="text", redacted=told)
    assert told or made == DeadLetterSql(table="dead", placeholder="?", moment="text")
    ranges = {TopicPartition("t", 0): OffsetRange(0, 5)}
    entry = entry_of({}, ranges, batch_id=7)
    letter = DeadLetter(topic="t", partition=0, offset=3, reason="r", redacted="s", row="{}")
    with closing(sqlite3.connect(":memory:")) as link:
        for _ in range(2):
            link.execute(made.create())
        text, rows = made.insert(entry, [letter], datetime(2026, 1, 2, tzinfo=UTC))
        link.executemany(text, rows)
        (found,) = link.execute("SELECT * FROM dead").fetchall()
    batch = (entry.query, entry.query_id, entry.run_id, 7)
    assert found[:9] == (*batch, "t", 0, 3, "r", "{}")
    assert found[9].startswith("2026-01-02")
    assert found[10:] == (("s",) if told else ())
