"""PostgresSink is a sink as every other: without Spark, which `test_modes` has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import FRAME, Row
from tests.sinks.arrow_frame import ArrowFrame


class TestPostgresSink(SinkConformance):
    """Through the driver, by append."""

    # At "sink.commit-sent" the answer is on its way: what is durable then, nobody can say.
    fault_points = ("sink.begun", "sink.copying", "sink.rows-written", "sink.ledger-moved")
    fault_points_after = ("sink.committed",)

    @pytest.fixture(autouse=True)
    def _store(self, dsn: str) -> None:
        self.dsn = dsn

    def open_sink(self, target: str) -> PostgresSink:
        return PostgresSink(self.dsn, target)

    def read_rows(self, target: str) -> list[Row]:
        with psycopg.connect(self.dsn) as link:
            table = sql.Identifier(target)
            there = link.execute("SELECT to_regclass(%s)", (table.as_string(link),)).fetchone()
            if there == (None,):
                return []
            return link.execute(sql.SQL("SELECT * FROM {}").format(table)).fetchall()

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return ArrowFrame.rows(FRAME, *rows)
