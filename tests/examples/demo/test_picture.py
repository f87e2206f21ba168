"""What the picture and the plain line show."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from examples.demo import picture
from examples.demo.demo_settings import DemoStore
from examples.demo.snapshot import Snapshot
from tests.examples.demo.snapshots import STARTING, STREAMING


def drawn(snapshot: Snapshot, width: int = 140, height: int = 50) -> str:
    """Render as on a terminal of this size, without its colours."""
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, color_system=None)
    console.print(picture.draw(snapshot, height))
    return out.getvalue()


def lines_with(text: str, *words: str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_the_three_bars_say_how_far_it_is() -> None:
    """Produced, processed and committed rows, each with its number."""
    text = drawn(STREAMING)
    assert lines_with(text, "produced", "120,000", "of 336,776 flights")
    assert lines_with(text, "processed", "111,000")
    assert lines_with(text, "committed", "105,000", "flights-demo")


def test_both_readings_of_a_partition_stand_in_one_line() -> None:
    """Our reader's numbers are on the left, those of kafka-consumer-groups on the right."""
    text = drawn(STREAMING)
    assert lines_with(text, "70,000", "75,000", "5,000", "60,000", "74,000", "14,000")
    assert lines_with(text, "kafka-consumer-groups", "3 s ago")


def test_what_is_not_known_is_a_dash() -> None:
    """A partition without a commit has no lag, and the tool has not named it yet."""
    (line,) = lines_with(drawn(STREAMING), " 2 ", " - ")
    assert line.split() == ["2", "-", "5,000", "-", "2", "-", "-", "-"]


def test_the_result_leaves_out_hours_with_few_flights() -> None:
    """Two flights at 23:00 are no average; the greatest delay comes first."""
    text = drawn(STREAMING)
    assert "LaGuardia" not in text
    assert text.index("EWR Newark") < text.index("JFK Kennedy")
    assert lines_with(text, "EWR Newark", "19:00", "5,976", "31 min")


def test_batches_are_newest_first() -> None:
    """The last batch is the one that people look for."""
    text = drawn(STREAMING)
    assert text.index("9,019") < text.index("9,018")


def test_before_kafka_is_there_only_the_bars_are_drawn() -> None:
    """Nothing is shown of what is not known; instead it is said what is going to happen."""
    text = drawn(STARTING)
    assert "eo-listener commits each batch" in text
    assert "starting Kafka" in text
    assert "partition" not in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (140, 50)])
@pytest.mark.parametrize("step", ["short", "a step with a very long name " * 8])
def test_the_picture_fits(width: int, height: int, step: str) -> None:
    """No line is wider and no picture higher than the terminal; no number is cut."""
    text = drawn(replace(STREAMING, step=step), width, height)
    lines = text.splitlines()
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert lines_with(text, "105,000", "committed")
    assert lines_with(text, "70,000", "75,000", "14,000")
    assert text.count("\N{HORIZONTAL ELLIPSIS}") == (step != "short")


@pytest.mark.parametrize(
    ("store", "said"), [(DemoStore.POSTGRES, "PostgreSQL"), (DemoStore.KAFKA, "Kafka")]
)
def test_a_sink_is_named_with_what_holds_its_rows(store: DemoStore, said: str) -> None:
    """A table of a database, a topic of Kafka; on a terminal and in a log."""
    snapshot = replace(STREAMING, store=store)
    text = drawn(snapshot)
    assert f"exactly once into {said}" in text
    assert lines_with(text, "processed", f"rows in the {store.holder}")
    assert f"111,000 rows in the {store.holder}" in picture.line(snapshot)


def test_square_brackets_are_text() -> None:
    """What is going on is told in words of others: none of them is a command to rich."""
    text = drawn(replace(STREAMING, step="found [bold]x[/] in [/tmp/y]"))
    assert lines_with(text, "found [bold]x[/] in [/tmp/y]")


def test_the_plain_line_holds_the_same_numbers() -> None:
    """One line, for a log: no control codes, all that counts."""
    text = picture.line(STREAMING)
    assert "\n" not in text
    assert "\x1b" not in text
    for number in ("120,000 of 336,776", "111,000", "105,000", "23,000", "3 s ago"):
        assert number in text
    assert picture.line(STARTING).split(maxsplit=2)[2] == "starting Kafka"
