"""MERGE by key into a Delta table: the newest row stays, or the batch is refused."""

from __future__ import annotations

from typing import Any

import pytest

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
