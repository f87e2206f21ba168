"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from eo_listener.errors import SettingsError
from tests.sinks.chapters.target_table import KINDS, row
from tests.sinks.chapters.upsert import SqlUpsertChapter
from tests.sinks.sqlite.database import SqliteTarget


class TestUpsert(SqliteTarget, SqlUpsertChapter):
    """In a database file."""

    examples = 200

    def test_a_key_is_what_the_index_says(self) -> None:
        """If the index takes 'a' and 'A' for one key, they are one key within a batch too."""
        self.run("CREATE TABLE {table} (word TEXT COLLATE NOCASE UNIQUE, id)")
        rows = [row(1, "a", 5), row(2, "A", 4)]
        assert self.put(self.sink(mode="upsert", keys="word"), rows, KINDS).rows == 1
        assert self.read("id", "word") == [(1, "a")]

    def test_values_are_compared_as_the_table_declares_them(self) -> None:
        """A row of the same version from another partition is a tie, also if its key is text."""
        self.run(
            "CREATE TABLE {table} (id TEXT UNIQUE, word TEXT, at INTEGER, topic TEXT, "
            '"partition" TEXT, "offset" TEXT)'
        )
        sink = self.sink(mode="upsert", keys="id", version_column="at")
        self.put(sink, [row(1, "a", 0, at=5)])
        self.put(sink, [row(1, "b", 9, at=5)])  # a later row of the same partition
        self.put(sink, [row(1, "b", 9, at=5, partition=1)])  # the same values
        with pytest.raises(SettingsError, match="same id, at"):
            self.put(sink, [row(1, "c", 10, at=5, partition=1)])
        assert self.read("id", "word") == [("1", "b")]

    @pytest.mark.parametrize("there", ["2026-01-01T12:00:00Z", "2026-01-01 12:00:00", 1767268800])
    def test_a_time_that_another_program_wrote(self, there: object) -> None:
        """A version in another form has another order as a text: no row is dropped by it."""
        kinds, options = {**KINDS, "at": "timestamp"}, {"keys": "id", "version_column": "at"}
        noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
        sink = self.sink(mode="upsert", **options)
        self.put(sink, [row(1, "a", 0, at=noon), row(2, "b", 1, at=noon)], kinds)
        self.run(f"UPDATE {{table}} SET at = {there!r} WHERE id = 1")
        self.put(sink, [row(2, "c", 2, at=noon)], kinds)
        with pytest.raises(SettingsError, match=r"'at'.*UPDATE .*1970-01-01 00:00:00\.000000\+00"):
            self.put(sink, [row(1, "d", 3, at=noon + timedelta(hours=1))], kinds)
        self.run("UPDATE {table} SET at = '2026-01-01 12:00:00.000000+00:00'")
        self.put(sink, [row(1, "d", 3, at=noon + timedelta(hours=1))], kinds)
        assert self.read("id", "word") == [(1, "d"), (2, "c")]
