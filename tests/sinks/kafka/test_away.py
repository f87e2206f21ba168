"""A broker that dies in the middle of a batch, and comes back."""

from __future__ import annotations

import threading
import time

import pytest

from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, heads_of, plan_of
from tests.conftest import StartBroker
from tests.sinks.kafka.conftest import batch, place_at, table, write
from tests.sinks.kafka.frames import without_spark

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

POINTS = ("sink.fenced", "sink.begun", "sink.rows-written", "sink.ledger-moved", "sink.commit-sent")


def test_a_broker_that_is_restarted(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the broker killed at each point of a batch, the batch is there once when it is back."""
    without_spark(monkeypatch)
    broker = start_broker()
    place = place_at(broker.bootstrap_servers)
    writer = SinkWriter(RetryLimits(timeout=120), time.sleep, time.monotonic)
    with place.opened:
        sink = place.sink(timeout=5)
        write(sink)
        for number, point in enumerate(POINTS, start=1):
            killed = threading.Event()

            def kill(name: str, point: str = point, killed: threading.Event = killed) -> None:
                if name == point and not killed.is_set():
                    killed.set()
                    broker.kill()
                    threading.Thread(target=broker.restart).start()

            entry = batch(writer.read(sink, QUERY), number)
            with hooked(kill):
                writer.write(sink, table(f"row {number}"), entry, plan_of(entry))
            assert killed.is_set()
            assert writer.read(sink, QUERY) == heads_of(entry), point
            assert place.values(settle=20) == [f"row {one}" for one in range(number + 1)], point
