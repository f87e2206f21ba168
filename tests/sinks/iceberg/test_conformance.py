"""IcebergSink is a sink as every other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import Row
from tests.sinks.iceberg.lake import Lake

pytestmark = pytest.mark.spark


class TestIcebergSink(SinkConformance):
    """On tables of a catalog in a database; each table has a ledger of its own."""

    shared_ledger = False

    @pytest.fixture(autouse=True)
    def _store(self, lake: Lake) -> None:
        self.lake = lake

    def open_sink(self, target: str) -> IcebergSink:
        return self.lake.sink(target)

    def read_rows(self, target: str) -> list[Row]:
        return self.lake.rows(target)

    @pytest.mark.slow
    def test_names_are_data(self) -> None:
        """As for every store; each name has a table of its own, which takes long to make."""
        super().test_names_are_data()

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return self.lake.frame(rows)
