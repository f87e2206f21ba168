"""Lines of COPY as Arrow spells them, and what Spark is asked to spell before; without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.sinks.postgres.copy_lines import Lines
from eo_listener.sinks.postgres.types import ColumnFormat, Encoding, as_text

MOMENT = datetime(2024, 10, 27, 0, 30, 0, 123456, tzinfo=timezone.utc)


def column_format(encoding: Encoding, element: Encoding | None = None) -> ColumnFormat:
    """Values with this encoding, whatever type they go into."""
    return ColumnFormat(postgres="it", encoding=encoding, element=element)


def encoded(column: pa.Array, encoding: Encoding) -> bytes:
    """The lines of one column."""
    batch = pa.RecordBatch.from_arrays([column], ["c"])
    return bytes(Lines.of(batch, [("c", column_format(encoding))]).text())


@pytest.mark.parametrize(
    ("values", "kind", "encoding", "text"),
    [
        ([1, None, -5], pa.int32(), Encoding.PLAIN, b"1\n\\N\n-5\n"),
        ([True, None], pa.bool_(), Encoding.PLAIN, b"true\n\\N\n"),
        ([Decimal("1.50")], pa.decimal128(5, 2), Encoding.PLAIN, b"1.50\n"),
        ([date(2024, 2, 29)], pa.date32(), Encoding.PLAIN, b"2024-02-29\n"),
        (["", "a", None], pa.string(), Encoding.TEXT, b"\na\n\\N\n"),
        ([b"\x00\xff", None, b""], pa.binary(), Encoding.HEX, b"\\\\x00ff\n\\N\n\\\\x\n"),
        ([None], pa.binary(), Encoding.HEX, b"\\N\n"),
        (
            [MOMENT, None],
            pa.timestamp("us", "Europe/Berlin"),
            Encoding.MOMENT,
            b"2024-10-27 00:30:00.123456+00\n\\N\n",
        ),
        (
            [MOMENT],
            pa.timestamp("us", "Europe/Berlin"),
            Encoding.UTC,
            b"2024-10-27 00:30:00.123456\n",
        ),
    ],
)
def test_each_value_is_spelt_as_postgresql_reads_it(
    values: list[Any], kind: pa.DataType, encoding: Encoding, text: bytes
) -> None:
    """Null is \\N, bytes are hexadecimal, and moments are in UTC whatever zone Arrow has."""
    assert encoded(pa.array(values, kind), encoding) == text


@pytest.mark.parametrize(
    "encoding", [Encoding.TEXT, Encoding.JSON, Encoding.ARRAY, Encoding.WORD, Encoding.STAMP]
)
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\tb", b"a\\tb\n"),
        ("a\nb", b"a\\nb\n"),
        ("a\rb", b"a\\rb\n"),
        ("\\N", b"\\\\N\n"),
        ('{"a":"\\n"}', b'{"a":"\\\\n"}\n'),
    ],
)
def test_no_text_ends_a_field_or_a_line(encoding: Encoding, value: str, text: bytes) -> None:
    """What COPY reads as a sign of its own is escaped, in texts of Spark's too."""
    assert encoded(pa.array([value]), encoding) == text
    assert encoded(pa.array(["x", value, None]), encoding) == b"x\n" + text + b"\\N\n"


def test_a_part_of_a_column_is_spelt_as_the_whole() -> None:
    """Arrow's slices begin anywhere in their buffers."""
    for values, encoding, text in (
        ([b"\x01", b"\x02\x03", None, b"\x04"], Encoding.HEX, b"\\\\x0203\n\\N\n\\\\x04\n"),
        (["\t", "\\", None, "a"], Encoding.TEXT, b"\\\\\n\\N\na\n"),
        ([1, 2, None, 4], Encoding.PLAIN, b"2\n\\N\n4\n"),
    ):
        assert encoded(pa.array(values).slice(1), encoding) == text


TWO = [("a", column_format(Encoding.PLAIN)), ("b", column_format(Encoding.TEXT))]


def test_fields_are_parted_by_tabs_and_lines_may_end_with_more() -> None:
    """The columns come in the order of the formats; what all rows have is in each end."""
    batch = pa.record_batch({"b": ["x", None], "a": [1, None]})
    assert bytes(Lines.of(batch, TWO).text()) == b"1\tx\n\\N\t\\N\n"
    assert bytes(Lines.of(batch, TWO, end="\t7\n").text()) == b"1\tx\t7\n\\N\t\\N\t7\n"
    assert bytes(Lines.of(batch, TWO[:1], end="\t7\n").text()) == b"1\t7\n\\N\t7\n"


def test_lines_are_cut_in_two() -> None:
    """Each half knows its rows, to the last one alone."""
    batch = pa.record_batch({"a": list(range(5)), "b": ["x"] * 5})
    whole = Lines.of(batch, TWO)
    first, second = whole.halves()
    assert [len(one) for one in (whole, first, second)] == [5, 2, 3]
    assert bytes(first.text()) == b"0\tx\n1\tx\n"
    assert bytes(second.text()) == b"2\tx\n3\tx\n4\tx\n"
    third, last = second.halves()[1].halves()
    assert (bytes(third.text()), bytes(last.text())) == (b"3\tx\n", b"4\tx\n")
    assert (last.start, last.until) == (4, 5)


def test_no_rows_are_no_lines() -> None:
    """Of an empty batch nothing is sent."""
    lines = Lines.of(pa.record_batch({"a": pa.array([], pa.int32())}), TWO[:1])
    assert (len(lines), bytes(lines.text())) == (0, b"")


@dataclass
class Frame:
    """Stands for a DataFrame; `asked` is what was selected of it."""

    columns: list[str]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def toDF(self, *names: str) -> Frame:  # noqa: N802  # Spark's
        """The same under other names."""
        assert len(names) == len(self.columns)
        return Frame(list(names), self.asked)

    def selectExpr(self, *texts: str) -> Frame:  # noqa: N802  # Spark's
        """Note it; the names stand at the ends."""
        self.asked.append(texts)
        return Frame([text.rpartition(" AS ")[2] for text in texts], self.asked)


SINCE = "cast(timestamp_ntz'1970-01-01' + make_dt_interval(0, 0, 0, 0.000001) * unix_micros({})"
QUOTED = (
    "concat(chr(34), replace(replace({}, chr(92), concat(chr(92), chr(92))), "
    "chr(34), concat(chr(92), chr(34))), chr(34))"
)
ITEMS = "concat('{{', array_join(transform(c1, x -> {}), ',', 'NULL'), '}}')"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (column_format(Encoding.WORD), "cast(c1 AS string)"),
        (column_format(Encoding.STAMP), f"concat({SINCE.format('c1')} AS string), '+00')"),
        (column_format(Encoding.ARRAY), ITEMS.format("cast(x AS string)")),
        (column_format(Encoding.ARRAY, Encoding.PLAIN), ITEMS.format("cast(x AS string)")),
        (
            column_format(Encoding.ARRAY, Encoding.TEXT),
            ITEMS.format(QUOTED.format("cast(x AS string)")),
        ),
        (
            column_format(Encoding.ARRAY, Encoding.WORD),
            ITEMS.format(QUOTED.format("cast(x AS string)")),
        ),
        (
            column_format(Encoding.ARRAY, Encoding.HEX),
            ITEMS.format(QUOTED.format("concat(chr(92), 'x', hex(x))")),
        ),
        (
            column_format(Encoding.ARRAY, Encoding.UTC),
            ITEMS.format(QUOTED.format(f"{SINCE.format('x')} AS string)")),
        ),
        (
            column_format(Encoding.ARRAY, Encoding.MOMENT),
            ITEMS.format(QUOTED.format(f"concat({SINCE.format('x')} AS string), '+00')")),
        ),
    ],
)
def test_what_arrow_cannot_spell_spark_is_asked_for(made: ColumnFormat, text: str) -> None:
    """One column of three, by its place: no name is parsed, and all come back by their names."""
    frame = Frame(["a b", "c0", "`"])
    formats = [
        ("`", column_format(Encoding.PLAIN)),
        ("c0", made),
        ("a b", column_format(Encoding.TEXT)),
    ]
    found: Any = as_text(frame, formats)  # type: ignore[arg-type]  # it stands for one
    assert found.columns == ["a b", "c0", "`"]
    assert frame.asked == [("c0 AS c0", f"{text} AS c1", "c2 AS c2")]


def test_json_keeps_nulls_and_every_digit_of_a_moment() -> None:
    """Neither is what Spark does by itself, nor UTC."""
    frame = Frame(["s"])
    as_text(frame, [("s", column_format(Encoding.JSON))])  # type: ignore[arg-type]  # it stands for one
    ((text,),) = frame.asked
    assert text.startswith("to_json(c0, map('ignoreNullFields', 'false', 'timeZone', 'UTC', ")
    assert text.count("HH:mm:ss.SSSSSS'") == 1
    assert text.count("HH:mm:ss.SSSSSSXXX'") == 1


def test_where_nothing_is_nested_spark_is_not_asked() -> None:
    """The frame stays the same one."""
    frame: Any = Frame(["a", "b"])
    for encoding in (Encoding.PLAIN, Encoding.TEXT, Encoding.HEX, Encoding.MOMENT, Encoding.UTC):
        assert as_text(frame, [("a", column_format(encoding))]) is frame
    assert frame.asked == []
