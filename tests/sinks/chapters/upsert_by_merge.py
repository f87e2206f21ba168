"""Upserts by a MERGE of Spark's, in the stores that have one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from eo_listener.errors import RetriableSinkError, SettingsError
from eo_listener.testing.faults import hooked
from tests.sinks.chapters.target_table import SparkTarget, row, union
from tests.sinks.chapters.upsert import UpsertChapter


class UpsertByMergeChapter(SparkTarget, UpsertChapter):
    """The chapter, with rows that Spark's SQL makes; what takes long is left to the slow tests."""

    examples = 12
    checks = False

    def merge(self, *batches: str, **arguments: Any) -> list[int | None]:
        """Write queries as batches, and return how many rows each has changed."""
        sink = self.sink(**{"mode": "upsert", "keys": "id", **arguments})
        return [self.put_frame(sink, self.frame(query)).rows for query in batches]

    @pytest.mark.slow
    def test_an_older_version_does_not_replace_a_newer_one(self) -> None:
        """As in every store."""
        super().test_an_older_version_does_not_replace_a_newer_one()

    @pytest.mark.slow
    def test_a_record_that_was_produced_twice_is_no_tie(self) -> None:
        """As in every store."""
        super().test_a_record_that_was_produced_twice_is_no_tie()

    @pytest.mark.slow
    def test_the_table_is_what_the_model_says(self) -> None:
        """As in every store."""
        super().test_the_table_is_what_the_model_says()

    @pytest.mark.slow
    def test_rows_that_an_executor_has_taken_along(self) -> None:
        """The batch is repeated, and nothing of it is there before."""
        context = self.frame("SELECT 1").sparkSession.sparkContext

        def lose(point: str) -> None:
            for one in context._jsc.getPersistentRDDs().values() if point == "sink.begun" else ():
                one.unpersist(True)

        self.upsert([row(1, "first", 0)])
        with hooked(lose), pytest.raises(RetriableSinkError) as caught:
            self.upsert([row(1, "again", 1), row(2, "two", 2)])
        cause = caught.value.__cause__
        assert cause is not None
        assert cause.__cause__ is not cause  # who follows them comes to an end
        assert self.read("id", "word") == [(1, "first")]
        self.upsert([row(1, "again", 1), row(2, "two", 2)])
        assert self.read("id", "word") == [(1, "again"), (2, "two")]

    def test_a_delete_that_ties_with_the_table_is_refused(self) -> None:
        """The same version and values from another partition: it is not left out in silence."""
        with pytest.raises(SettingsError, match="same id, at"):
            self.upsert(
                [row(1, "a", 0, at=5)],
                [row(1, "a", 7, partition=1, at=5)],
                version_column="at",
                delete_when="partition = 1",
            )
        assert self.read("word") == [("a",)]

    @pytest.mark.slow
    def test_bytes_that_are_not_utf8_are_compared(self) -> None:
        """Two such texts are a tie, in a batch and beside the table's row."""
        origin = "'flights' topic, 0L offset"
        rows = [
            f"1 id, 5 at, cast(X'{word}' AS string) word, {origin}, {partition} partition"
            for partition, word in enumerate(("fe", "ff"))
        ]
        self.merge(f"SELECT {rows[0]}", version_column="at")
        for query in (f"SELECT {rows[1]}", union(text.replace("1 id", "2 id") for text in rows)):
            with pytest.raises(SettingsError, match="same id, at"):
                self.merge(query, version_column="at")

    @pytest.mark.slow
    def test_equal_rows_are_no_tie_in_other_types(self) -> None:
        """They are compared as the table has them."""
        numbers = ("7D", "7D", "7")
        rows = [f"1 id, 5 at, 'flights' topic, {one} partition, 0L offset" for one in range(3)]
        self.merge(
            *(f"SELECT {one}, {n} n" for one, n in zip(rows, numbers, strict=True)),
            version_column="at",
        )
        assert self.read("partition", "n") == [(0, 7)]

    @pytest.mark.slow
    def test_rows_are_deleted_where_the_newest_says_so(self) -> None:
        """The row in the table goes; one that was never there is not inserted."""
        self.upsert(
            [row(1, "a", 0), row(2, "b", 1)],
            [row(1, "x", 2), row(1, "gone", 3), row(3, "gone", 4), row(2, "back", 5)],
            delete_when="word = 'gone'",
        )
        assert self.read("id", "word") == [(2, "back")]

    @pytest.mark.slow
    def test_a_map_is_no_obstacle(self) -> None:
        """Columns that cannot be compared are compared as text, and names may be any."""
        word = "map('k', 1) AS `a``b.c`, 'flights' topic, 0 partition"
        self.merge(union(f"1 id, '{n}' word, {word}, {n}L offset" for n in (0, 1)))
        assert self.read("id", "word") == [(1, "1")]

    @pytest.mark.slow
    def test_a_key_may_have_fields_of_any_name(self) -> None:
        """Also those of types that are no keys."""
        keys = [f"named_struct('variant', {n}, 'map', 'm') id" for n in (1, 2, 1)]
        self.merge(*(f"SELECT {key}, '{n}' word" for n, key in enumerate(keys)))
        assert self.read("id.variant", "word") == [(1, "2"), (2, "1")]

    def test_a_zero_has_no_sign(self) -> None:
        """As a key, in a batch and in the table; what is not a number is one key."""
        keys: Sequence[str] = ["-0.0D", "double('NaN')", "0.0D", "-0.0D", "double('NaN')"]
        self.merge(*(f"SELECT {key} id, '{number}' word" for number, key in enumerate(keys)))
        assert self.read("string(id)", "word") == [("0.0", "3"), ("NaN", "4")]
