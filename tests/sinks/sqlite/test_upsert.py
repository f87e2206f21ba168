"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

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
