"""Kafka as the chapters use it: a topic and a ledger of the test's own; without Spark."""

from __future__ import annotations

import json
from contextlib import closing

import pyarrow as pa
import pytest

from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.testing.made_up_entries import Row
from tests.sinks.chapters.store import Store
from tests.sinks.kafka.conftest import Place, table


class KafkaStore(Store):
    """One topic."""

    first = "next"  # the history is that of repairs, which do not know what was before

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.opened = place.opened

    @property
    def name(self) -> str:
        return self.place.target

    def make_sink(self) -> KafkaSink:
        return self.place.sink()

    def make_repair(self) -> KafkaLedgerRepair:
        return KafkaLedgerRepair({"bootstrap.servers": self.place.servers}, self.place.ledger)

    def repair(self) -> KafkaLedgerRepair:
        return self.opened.enter_context(closing(self.make_repair()))

    def frame(self, rows: list[Row]) -> pa.Table:
        return table(*map(json.dumps, rows))

    def rows(self) -> list[Row]:
        return rows_in(self.place)


def rows_in(place: Place, *, settle: float = 5.0) -> list[Row]:
    """Read what a reader under read_committed is shown."""
    return [tuple(json.loads(one)) for one in place.values(settle=settle)]


@pytest.fixture
def store(place: Place) -> KafkaStore:
    """A topic without records."""
    return KafkaStore(place)
