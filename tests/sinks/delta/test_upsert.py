"""MERGE by key into a Delta table: the newest row stays, or the batch is refused."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.delta import DeltaSink
from tests.sinks.delta.test_tables import Table, table
from tests.sinks.merge_suite import MergeSuite

__all__ = ["table"]

pytestmark = [pytest.mark.spark]


class TestDelta(MergeSuite):
    """With a table by its path."""

    @pytest.fixture(autouse=True)
    def _store(self, table: Table) -> None:
        self.table = table

    def sink(self, **arguments: Any) -> DeltaSink:
        """Another driver's."""
        return self.table.sink(**arguments)

    def frame(self, query: str) -> Any:
        """In the session of the table."""
        return self.table.spark.sql(query)

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        """By Spark, which reads the log again."""
        return self.table.read(*columns)

    @pytest.mark.slow
    def test_a_key_that_is_padded_is_refused(self) -> None:
        """It would be inserted with each batch; Spark's schema calls it a string."""
        self.table.sql("CREATE TABLE {table} (id char(3), word string) USING delta")
        with pytest.raises(SettingsError, match=r"'id' is string in the rows and char\(3\)"):
            self.write([["'ab' id, 'a' word"]])
        assert self.read("id") == []
