"""A broker that dies in the middle of a batch, and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.made_up_entries import Row
from tests.broker import Broker
from tests.conftest import StartBroker
from tests.sinks.chapters.bad_days import MortalStore, Outages
from tests.sinks.kafka.conftest import place_at
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.store import KafkaStore, rows_in

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


class MortalKafka(KafkaStore, MortalStore):
    """On a broker of the test's own."""

    points = (
        *("sink.fenced", "sink.begun", "sink.rows-written", "sink.ledger-moved"),
        "sink.commit-sent",
    )

    def __init__(self, broker: Broker) -> None:
        super().__init__(place_at(broker.bootstrap_servers))
        self.kill, self.start = broker.kill, broker.restart

    def make_sink(self) -> KafkaSink:
        return self.place.sink(timeout=5)

    def rows(self) -> list[Row]:
        return rows_in(self.place, settle=20)


class TestOutages(Outages):
    """kill -9 of the only broker."""

    @pytest.fixture
    def mortal(
        self, start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[MortalKafka]:
        """A topic without records."""
        without_spark(monkeypatch)
        made = MortalKafka(start_broker())
        with made.opened:
            yield made
