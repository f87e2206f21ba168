"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

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
