"""How many rows may become dead letters before the batch fails."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.sinks.dead_letters import DeadLetter, DeadLetterLimit, Refusals


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


def test_the_limits_of_a_limit_are_limits() -> None:
    """0 rows and all of the rows are valid limits."""
    assert [DeadLetterLimit(most).most for most in (0, 0.0, 1.0)] == [0, 0.0, 1.0]


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


def test_reasons_that_are_all_different_take_no_room() -> None:
    """A mark may be another one for each row: the first thousand are counted."""
    refusals = Refusals(label="the table", limit=DeadLetterLimit(1.0))
    refusals.add(letter(at, f"mark {at}") for at in range(3000))
    refusals.add([letter(1, "mark 5")])
    assert len(refusals.reasons) == 1000
    assert refusals.reasons.most_common(1) == [("mark 5", 2)]
    assert refusals.count == 3001


def test_rows_without_an_origin_are_counted_too() -> None:
    """Where no row tells where it came from the error says so."""
    refusals = Refusals(label="the table", limit=DeadLetterLimit(0))
    lost = DeadLetter(topic=None, partition=None, offset=None, reason="odd", row="{}")
    with pytest.raises(PoisonRowError, match=r"without topic, partition.*: odd") as no:
        refusals.add([lost])
    assert no.value.partition is None
