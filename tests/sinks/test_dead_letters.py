"""Which columns of a frame are written, what becomes of a row that is not, and how many may be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.errors import PoisonRowError, SettingsError
from eo_listener.sinks.arrow_rows import arrow_schema
from eo_listener.sinks.dead_letters import DeadLetter, DeadLetterLimit, Refusals, RowFilter

UTC = timezone.utc


def test_columns_are_chosen_by_name() -> None:
    """The mark never, the origin where there is room, all others always."""
    names = ("topic", "v", "offset", "eo_poison")
    assert RowFilter.for_target(names, None) == RowFilter(
        columns=("topic", "v", "offset"), marked=True
    )
    assert RowFilter.for_target(names, ("offset", "v", "more")).columns == ("v", "offset")
    assert RowFilter.for_target(("v",), ("v",)).marked is False
    with pytest.raises(SettingsError, match="no column 'v'"):
        RowFilter.for_target(names, ("V", "topic", "offset"))
    with pytest.raises(SettingsError, match="no column 'w', 'x', 'y', 'z'; it has 'v'"):
        RowFilter.for_target(("x", "z", "w", "y", "topic", "v"), ("v",))
    with pytest.raises(SettingsError, match="no column to write"):
        RowFilter.for_target(("topic", "eo_poison"), ("v",))
    with pytest.raises(SettingsError, match="'A', 'a'"):  # a store may take them for one
        RowFilter.for_target(("a", "b", "A"), None)


def test_a_reason_may_hold_anything() -> None:
    """What no store takes as text is escaped in reason and topic; the row is still a letter."""
    reasons, topics = (
        pa.Array.from_buffers(pa.string(), 2, pa.array(values).buffers())
        for values in ([b"bad: \xff", b"bad: \x00"], [b"t\xff", b"t\x00"])
    )
    rows = pa.record_batch({"topic": topics, "v": [1, 2], "eo_poison": reasons})
    good, dead = RowFilter.for_target(rows.schema.names, None).sift(rows)
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
    for kind in (
        struct,
        {"type": "array", "elementType": struct},
        {"type": "map", "keyType": "string", "valueType": struct},
        {"type": "struct", "fields": [{"name": "inner", "type": struct}]},
    ):
        with pytest.raises(SettingsError, match="field named 'a'"):
            arrow_schema({"fields": [{"name": "v", "type": kind}]})


def test_a_dead_row_is_whole() -> None:
    """Its JSON holds every column, in a form that JSON has."""
    moment = pa.array([datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    columns = {
        "topic": (["t"], "t"),
        "partition": (pa.array([3], pa.int32()), 3),
        "offset": ([2**40], 2**40),
        "at": (moment, "2026-01-02T00:00:00+00:00"),
        "price": (pa.array([Decimal("1.50")]), "1.50"),
        "raw": ([b"\xff"], "/w=="),
        "nan": ([float("nan")], "nan"),
        "tags": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), {"k": 1}),
    }
    rows = pa.record_batch({name: values for name, (values, _) in columns.items()})
    letter = RowFilter.for_target(rows.schema.names, None).letter(rows, 0, "why")
    assert (letter.topic, letter.partition, letter.offset) == ("t", 3, 2**40)
    assert json.loads(letter.row) == {name: shown for name, (_, shown) in columns.items()}


def test_text_that_is_no_text_is_sifted_out() -> None:
    """Bytes that Spark cast to a string are refused, escaped in the JSON, wherever they hide."""
    raw = pa.array([b"fine", b"\xffodd"]).buffers()
    broken = pa.Array.from_buffers(pa.string(), 2, raw)
    nested = pa.StructArray.from_arrays([broken], ["inner"])
    for column in (broken, nested):
        rows = pa.record_batch({"id": [1, 2], "v": column})
        good, (dead,) = RowFilter.for_target(rows.schema.names, None).sift(rows)
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
    assert ("keep topic" in str(error.fix)) is not known
    assert (error.partition, error.offset) == (tp, 7 if known else None)


def test_the_reason_for_logs_is_another_one() -> None:
    """Where a reason may hold a value, what is told has none; NUL is escaped in it as well."""
    given: dict[str, Any] = {"topic": None, "partition": None, "offset": None, "row": "{}"}
    assert DeadLetter(reason="odd", **given).shown == "odd"
    both = DeadLetter(reason="v is 4711", redacted="v is\x00 odd", **given)
    assert both.shown == "v is\\x00 odd"
    assert "4711" not in str(both.error("x"))


def test_a_mark_is_a_text() -> None:
    """A large one too; without one there are no dead letters."""
    large = pa.record_batch({"v": [1, 2], "eo_poison": pa.array([None, "odd"], pa.large_string())})
    assert len(RowFilter.for_target(large.schema.names, None).sift(large)[1]) == 1
    none = pa.record_batch({"v": [1], "eo_poison": pa.array([None], pa.string())})
    good, dead = RowFilter.for_target(none.schema.names, None).sift(none)
    assert (good.num_rows, dead) == (1, [])


def refused(origin: Sequence[object]) -> PoisonRowError:
    return DeadLetter.from_origin(origin, "id is null").error("the table", cause="c", fix="f")


def test_a_row_is_named_by_all_of_its_origin_or_not_at_all() -> None:
    """Where one of topic, partition and offset is null, the others name no record."""
    error = refused(["flights", 0, 7])
    assert str(error).startswith(
        "the row from offset 7 of flights-0 cannot be written to the table: id is null"
    )
    assert (error.partition, error.offset) == (("flights", 0), 7)
    assert (error.cause, error.fix) == ("c", "f")
    for origin in ((None, 0, 7), ("flights", None, 7), ("flights", 0, None)):
        error = refused(origin)
        assert str(error.problem).endswith("the table: id is null")
        assert (error.partition, error.offset) == (None, None)


# How many rows may become dead letters


def letter(at: int, reason: str = "odd", told: str | None = None) -> DeadLetter:
    return DeadLetter(topic="t", partition=1, offset=at, reason=reason, row="{}", redacted=told)


@pytest.mark.parametrize(
    ("most", "dead", "rows", "fits"),
    [
        (5, 5, 100, True),
        (5, 6, 100, False),
        (0, 0, 0, True),
        (0, 1, 100, False),
        (1, 2, 100, False),
        (1.0, 99, 100, True),
        (0.5, 50, 100, True),
        (0.5, 51, 100, False),
        (0.0, 9, 100, True),  # few rows are no share
        (0.0, 10, 100, False),
        (0.5, 9, 9, True),
        (1.0, 9, 9, True),
        (1.0, 10, 10, False),  # all of them
        (1000, 10, 10, False),
        (1000, 9, 9, True),
        (1000, 10, 11, True),
        (1.0, 10, 11, True),
    ],
)
def test_how_many_rows_may_be_dead_letters(most: float, dead: int, rows: int, fits: bool) -> None:
    """A number is one of rows, a float a share of them; all rows never, unless they are few."""
    assert DeadLetterLimit(most).allows(dead, rows) is fits


@pytest.mark.parametrize("most", [-1, -0.1, 1.1, float("nan"), float("inf"), True, "5", None])
def test_what_is_no_limit(most: Any) -> None:
    """Numbers below 0, shares above 1 and what is no number are refused."""
    with pytest.raises(SettingsError, match="max_dead_letters"):
        DeadLetterLimit(most)


def test_a_number_fails_as_soon_as_there_are_more() -> None:
    """With more dead letters than allowed, no further refused rows are searched for."""
    refusals = Refusals(label="the table", limit=DeadLetterLimit(2))
    refusals.add([letter(1), letter(2)])
    refusals.check(100)
    with pytest.raises(PoisonRowError, match=r"4 rows cannot be written to the table.*offset 1 of"):
        refusals.add([letter(3), letter(4)])


def test_the_error_names_the_first_and_the_most_frequent_reason() -> None:
    """As they may be shown, with where the first row came from."""
    refusals = Refusals(label="the table", limit=DeadLetterLimit(0.5))
    refusals.add([letter(7, "v is 4711", "v is too large")])
    refusals.add([letter(at, "null") for at in range(8, 68)])
    refusals.check(122)
    with pytest.raises(PoisonRowError) as failed:
        refusals.check(121)
    said = str(failed.value)
    assert "61 rows of 121 cannot" in said
    assert "the row from offset 7 of t-1: v is too large" in said
    assert "the most frequent reason (60 times): null" in said
    assert "max_dead_letters=0.5" in said
    assert "4711" not in said
    assert failed.value.partition == ("t", 1)
    assert failed.value.offset == 7
    with pytest.raises(PoisonRowError, match="every row"):
        refusals.check(61)
