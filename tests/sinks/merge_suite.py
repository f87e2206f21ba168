"""Upserts by a MERGE of Spark's, as tests that each store which has one runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from eo_listener.model.errors import PoisonRowError, RetriableSinkError, SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.protocols import Sink
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import Heads, entry_of, heads_of, plan_of

TP = TopicPartition("flights", 0)


def row(key: int, word: str, offset: int, partition: int = 0, **more: str) -> str:
    """A row of SQL that comes from there."""
    rest = "".join(f", {value} {name}" for name, value in more.items())
    where = f"'flights' topic, {partition} partition, {offset}L offset"
    return f"{key} id, '{word}' word, {where}{rest}"


def union(rows: Sequence[str]) -> str:
    """A query for these rows."""
    return " UNION ALL ".join(f"SELECT {one}" for one in rows)


class MergeSuite:
    """Subclass it as `Test...`, with a table of the test's own."""

    heads: Heads

    def sink(self, **arguments: Any) -> Sink:
        """A sink on the table."""
        raise NotImplementedError

    def frame(self, query: str) -> Any:
        """The rows of a query."""
        raise NotImplementedError

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        """What is in the table, in order; nothing where there is none."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _empty(self) -> None:
        self.heads = {}

    def write(self, batches: Sequence[Sequence[str] | str], **arguments: Any) -> list[int | None]:
        """Write batches, and return how many rows each has changed.

        A batch is its rows, or a query for them.
        """
        sink = self.sink(**{"mode": "upsert", "keys": "id", **arguments})
        counts = []
        for rows in batches:
            number = max((head.range.until for head in self.heads.values()), default=0)
            entry = entry_of(self.heads, {TP: OffsetRange(number, number + 1)}, batch_id=number)
            frame = self.frame(rows if isinstance(rows, str) else union(rows))
            counts.append(sink.apply(frame, entry, plan_of(entry)).rows)
            self.heads = heads_of(entry)
        return counts

    def test_the_newest_row_of_a_key_stays(self) -> None:
        """In a batch by the greater offset, and over the table's; without one a row is inserted."""
        counts = self.write(
            [
                [row(1, "old", 0), row(1, "new", 2), row(1, "mid", 1), row(2, "two", 3)],
                [row(2, "later", 4), row(3, "three", 5)],
            ],
        )
        assert counts == [2, 2]
        assert self.read("id", "word") == [(1, "new"), (2, "later"), (3, "three")]

    @pytest.mark.slow
    def test_rows_that_an_executor_has_taken_along(self) -> None:
        """The batch is repeated, and nothing of it is there before."""
        context = self.frame("SELECT 1").sparkSession.sparkContext

        def lose(point: str) -> None:
            for one in context._jsc.getPersistentRDDs().values() if point == "sink.begun" else ():
                one.unpersist(True)

        self.write([[row(1, "first", 0)]])
        lost = pytest.raises(RetriableSinkError, match="an executor has ended")
        with hooked(lose), lost as caught:
            self.write([[row(1, "again", 1), row(2, "two", 2)]])
        cause = caught.value.__cause__
        assert cause is not None
        assert cause.__cause__ is not cause  # who follows them comes to an end
        assert self.read("id", "word") == [(1, "first")]
        self.write([[row(1, "again", 1), row(2, "two", 2)]])
        assert self.read("id", "word") == [(1, "again"), (2, "two")]

    @pytest.mark.slow
    def test_an_older_version_does_not_replace_a_newer_one(self) -> None:
        """Neither in a batch, nor late; of equal ones a later offset of the same partition does."""
        self.write(
            [
                [row(1, "nine", 0, at="9"), row(1, "eight", 1, at="8"), row(2, "five", 2, at="5")],
                [row(1, "late", 3, at="7"), row(2, "again", 4, at="5")],
            ],
            version_column="at",
        )
        assert self.read("id", "word") == [(1, "nine"), (2, "again")]

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            ([row(1, "a", 0), row(1, "b", 0, partition=1)], "several rows with the same id"),
            (["1 id, 'a' word", "1 id, 'b' word"], "do not say which offset"),
            (
                [
                    row(1, "a", 0, seen="timestamp'2026-11-23 08:04:05.000001'"),
                    row(1, "a", 0, partition=1, seen="timestamp'2026-11-23 08:04:05.000002'"),
                ],
                "several rows with the same id",
            ),
        ],
    )
    def test_ties_are_refused(self, rows: list[str], said: str) -> None:
        """Rows that nothing orders fail the batch, and nothing is written."""
        with pytest.raises(SettingsError, match=said):
            self.write([rows])
        assert self.read("id") == []

    @pytest.mark.slow
    def test_a_tie_with_the_table_is_refused(self) -> None:
        """The same version from another partition, and other values."""
        with pytest.raises(SettingsError, match="one in the table have the same id, at"):
            self.write(
                [[row(1, "a", 0, at="5")], [row(1, "b", 7, partition=1, at="5")]],
                version_column="at",
            )
        assert self.read("word") == [("a",)]

    def test_a_delete_that_ties_with_the_table_is_refused(self) -> None:
        """The same version and values from another partition: it is not left out in silence."""
        with pytest.raises(SettingsError, match="one in the table have the same id, at"):
            self.write(
                [[row(1, "a", 0, at="5")], [row(1, "a", 7, partition=1, at="5")]],
                version_column="at",
                delete_when="partition = 1",
            )
        assert self.read("word") == [("a",)]

    @pytest.mark.slow
    def test_equal_rows_are_no_tie(self) -> None:
        """A record that was produced twice, in a batch and against the table.

        Also where the table has it in another type, as in the last batch.
        """
        self.write(
            [
                [row(1, "a", 0, at="5", n="7D"), row(1, "a", 4, partition=1, at="5", n="7D")],
                [row(1, "a", 7, partition=2, at="5", n="7D")],
                [row(1, "a", 9, partition=3, at="5", n="7")],
            ],
            version_column="at",
        )
        assert self.read("word") == [("a",)]

    def test_a_row_without_a_key_is_refused(self) -> None:
        """It would be inserted again and again."""
        with pytest.raises(PoisonRowError, match=r"offset 3 of flights-0.*id is null"):
            self.write([[row(1, "a", 0), row(2, "b", 3).replace("2 id", "CAST(NULL AS int) id")]])

    @pytest.mark.slow
    def test_rows_are_deleted_where_the_newest_says_so(self) -> None:
        """The row in the table goes; one that was never there is not inserted."""
        self.write(
            [
                [row(1, "a", 0), row(2, "b", 1)],
                [row(1, "x", 2), row(1, "gone", 3), row(3, "gone", 4), row(2, "back", 5)],
            ],
            delete_when="word = 'gone'",
        )
        assert self.read("id", "word") == [(2, "back")]

    @pytest.mark.slow
    def test_a_map_is_no_obstacle(self) -> None:
        """Columns that cannot be compared are compared as text, and names may be any."""
        given = "map('k', 1) AS `a``b.c`"
        self.write([[f"{row(1, 'a', 0)}, {given}", f"{row(1, 'b', 1)}, {given}"]])
        assert self.read("id", "word") == [(1, "b")]

    @pytest.mark.slow
    def test_a_key_may_have_fields_of_any_name(self) -> None:
        """Also those of types that are no keys."""
        keys = [f"named_struct('variant', {n}, 'map', 'm') id" for n in (1, 2, 1)]
        self.write([[f"{key}, '{n}' word"] for n, key in enumerate(keys)])
        assert self.read("id.variant", "word") == [(1, "2"), (2, "1")]

    def test_a_zero_has_no_sign(self) -> None:
        """As a key, in a batch and in the table; what is not a number is one key."""
        keys = ["-0.0D", "double('NaN')", "0.0D", "-0.0D", "double('NaN')"]
        self.write([[f"{key} id, '{number}' word"] for number, key in enumerate(keys)])
        assert self.read("string(id)", "word") == [("0.0", "3"), ("NaN", "4")]
