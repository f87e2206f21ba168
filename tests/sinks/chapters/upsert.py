"""Which row of a key an upsert keeps, in every store that has upserts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eo_listener.errors import PoisonRowError, SettingsError
from eo_listener.model.ledger import Applied
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters import upsert_model as model
from tests.sinks.chapters.target_table import KINDS, ORIGIN, TP, Row, TargetTable, columns_of, row

WIDE = {**KINDS, "seen": "timestamp", "note": "string"}
TIED = {
    "of one record": [row(1, "a", 3), row(1, "b", 3), row(2, "c", 4)],
    "of two partitions": [row(1, "a", 3), row(1, "b", 4, partition=1)],
    "of which one is null": [row(1, "a", 3), row(1, None, 4, partition=1)],
    "a microsecond apart": [
        row(1, "a", 3, partition=one, seen=datetime(2026, 11, 23, 8, 4, 5, one, timezone.utc))
        for one in (0, 1)
    ],
    "of no known record": [{"id": 1, "word": "a"}, {"id": 1, "word": "b"}],
}


class UpsertChapter(TargetTable):
    """Derive `Test...` from it and from a store."""

    examples = 100
    """How many tables are compared with the model."""

    checks = True
    """Whether a table can refuse a row for its values."""

    def upsert(self, *batches: Sequence[Row], **arguments: Any) -> list[Applied]:
        sink = self.sink(**{"mode": "upsert", "keys": "id", **arguments})
        kinds = columns_of(batches[0], WIDE)
        return [self.put(sink, rows, kinds) for rows in batches]

    def test_the_newest_row_of_a_key_stays(self) -> None:
        """In a batch by the offset, however rows arrive; a next batch replaces rows and inserts."""
        done = self.upsert(
            [row(1, "old", 0), row(1, "new", 2), row(1, "mid", 1), row(2, "two", 3)],
            [row(2, "later", 4), row(3, "three", 5)],
        )
        assert [one.rows for one in done] == [2, 2]
        assert self.read("id", "word") == [(1, "new"), (2, "later"), (3, "three")]

    def test_an_older_version_does_not_replace_a_newer_one(self) -> None:
        """Neither in a batch nor later; of equal ones a later offset of the same partition does."""
        self.upsert(
            [row(1, "nine", 0, at=9), row(1, "eight", 1, at=8), row(2, "five", 2, at=5)],
            [row(1, "late", 3, at=7), row(2, "again", 4, at=5)],
            version_column="at",
        )
        assert self.read("id", "word") == [(1, "nine"), (2, "again")]

    @pytest.mark.parametrize("rows", TIED.values(), ids=TIED)
    def test_ties_are_refused(self, rows: Sequence[Row]) -> None:
        """Rows that nothing orders fail the batch; one is named, and nothing is written."""
        with pytest.raises(SettingsError) as refused:
            self.upsert(rows)
        assert "same id" in str(refused.value)
        assert bool(re.search(r"offset [34] of flights-[01]", str(refused.value))) == (
            "offset" in rows[0]
        )
        assert self.read("id") == []
        assert self.sink().applied(QUERY) == {}

    def test_a_version_orders_rows_without_an_origin(self) -> None:
        """Whatever their order is."""
        self.upsert(
            [{"id": 1, "word": "new", "at": 5}, {"id": 1, "word": "old", "at": 4}],
            version_column="at",
        )
        assert self.read("word") == [("new",)]

    def test_a_record_that_was_produced_twice_is_no_tie(self) -> None:
        """Rows that differ only in their origin need no order, nor beside the table's row."""

        def same(*places: tuple[int, int], word: str = "a") -> list[Row]:
            return [
                row(1, word, offset, partition, at=7, note=None) for partition, offset in places
            ]

        options = {"version_column": "at"}
        done = self.upsert(same((0, 5), (3, 0)), same((4, 0)), same((0, 9)), **options)
        if self.counts_changes:
            assert [one.rows for one in done] == [1, 0, 1]
        assert self.read("partition", "offset") == [(0, 9)]
        with pytest.raises(SettingsError, match=r"same id, at.*offset 1 of flights-4"):
            self.upsert(same((4, 1), word="A"), **options)
        assert self.read("word") == [("a",)]
        self.run("DELETE FROM {table}")
        self.upsert(same((4, 1), word="A"), **options)
        assert self.read("word") == [("A",)]

    @pytest.mark.parametrize("lacks", ["id", "at"])
    def test_a_row_without_a_key_or_a_version_is_poison(self, lacks: str) -> None:
        """It would be inserted again and again, or nothing says whether it is newer than others."""
        self.make_table(KINDS, key="id")
        with pytest.raises(PoisonRowError, match=f"\\b{lacks}\\b") as refused:
            self.upsert(
                [row(1, "a", 0, at=1), {**row(2, "b", 3, at=1), lacks: None}], version_column="at"
            )
        assert (refused.value.partition, refused.value.offset) == (TP, 3)
        assert self.read("id") == []

    @pytest.mark.parametrize(
        ("kind", "there"), [("string", "string"), ("double", "double"), ("long", "string")]
    )
    def test_a_version_without_one_order_is_refused(self, kind: str, there: str) -> None:
        """As texts 9 is after 10, and NaN is anywhere: such a column decides nothing."""
        self.make_table({**KINDS, "at": there}, key="id")
        sink = self.sink(mode="upsert", keys="id", version_column="at")
        with pytest.raises(SettingsError, match="version_column='at'"):
            self.put(sink, [row(1, "a", 0, at=None)], {**KINDS, "at": kind})

    @pytest.mark.parametrize("lacking", [{"keys": "nr"}, {"version_column": "nr"}])
    def test_columns_that_the_rows_lack_are_refused(self, lacking: dict[str, str]) -> None:
        """By name, before there is a table."""
        with pytest.raises(SettingsError, match="'nr'"):
            self.upsert([row(1, "a", 0)], **lacking)
        assert self.read("id") == []

    def test_a_version_that_the_table_lacks_is_refused(self) -> None:
        """With what could it be compared?"""
        self.make_table({"id": "integer", "word": "string"}, key="id")
        with pytest.raises(SettingsError, match="'offset'"):
            self.upsert([row(1, "a", 0)], version_column="offset")

    def test_the_table_is_what_the_model_says(self) -> None:
        """After each batch; or none of the rows is the newest, and it stays as it was."""

        @settings(max_examples=self.examples, deadline=None)
        @given(drawn=model.batches(), versioned=st.booleans(), located=st.booleans())
        def check(drawn: list[list[model.Row]], versioned: bool, located: bool) -> None:
            self.begin()
            columns = {
                name: kind for name, kind in model.KINDS.items() if located or name not in ORIGIN
            }
            self.make_table(columns, key="k", check=f"v < {model.REFUSED}")
            version = "version" if versioned else None
            letters = {"dead_letters": "dead"} if self.checks else {}
            sink = self.new_sink(mode="upsert", keys="k", version_column=version, **letters)

            def put(rows: Sequence[model.Row]) -> Applied:
                return self.put(sink, [one._asdict() for one in rows], model.KINDS)

            model.compare(
                model.Model(versioned=versioned, located=located),
                drawn if self.checks else model.without_refused(drawn),
                put,
                lambda: self.read("k", "version", "v"),
                counts=self.counts_changes,
            )
            sink.close()

        check()


class SqlUpsertChapter(UpsertChapter):
    """What holds where the table's own types and rules decide."""

    @pytest.mark.parametrize("offsets", [(9, 10), (99, 100)])
    def test_an_offset_is_a_number_whatever_the_table_has(self, offsets: tuple[int, int]) -> None:
        """In a column of texts 9 is after 10: the order is that of Kafka's offsets all the same."""
        self.make_table({**KINDS, "partition": "string", "offset": "string"}, key="id")
        self.upsert([row(1, str(offset), offset) for offset in offsets])
        last = str(offsets[1])
        assert self.read("word", "offset", "partition") == [(last, last, "0")]

    def test_a_table_without_offsets_knows_no_ties(self) -> None:
        """The row that comes later stays, as there is nothing to compare it by."""
        options = {"version_column": "at"}
        self.upsert([row(1, "a", 5, at=7)], **options)
        self.run('ALTER TABLE {table} DROP COLUMN "offset"')
        (done,) = self.upsert([row(1, "b", 1, partition=4, at=7)], **options)
        assert (done.rows, self.read("word")) == (1, [("b",)])
