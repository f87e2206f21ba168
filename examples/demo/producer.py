"""Replay flights into a topic, at a chosen speed, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from eo_listener.errors import UnavailableError
from examples.demo.flights import Flight

_HEAD: Final = 500  # flights that are sent at once; the others after `go_on`
_STEP: Final = 0.02  # seconds between two reads of the clock
_SLICE: Final = 2_000  # flights sent between two checks when there is no rate to keep
_TIMEOUT: Final = 30.0  # seconds for the topic to be created, and for the last flights to arrive


def create_topic(servers: str, topic: str, partitions: int) -> None:
    """Create the topic, and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    admin.create_topics([wanted], request_timeout=_TIMEOUT)[topic].result(_TIMEOUT)


class Replay(threading.Thread):
    """Sends flights in their order, by carrier; `rate` is in flights per second, 0 for no limit.

    `produced` counts the flights that Kafka has acknowledged.
    """

    def __init__(self, servers: str, topic: str, flights: Sequence[Flight], rate: int) -> None:
        super().__init__(name="demo-producer", daemon=True)
        self.produced = 0
        self._topic = topic
        self._flights = flights
        self._rate = rate
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._released = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # as Java's own producer spreads keys
                "queue.buffering.max.messages": 1_000_000,  # all of them
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": "0",
            }
        )

    def go_on(self) -> None:
        """Send the rest."""
        self._released.set()

    def check(self) -> None:
        """Raise UnavailableError when a flight could not be produced."""
        if self._failure is not None:
            raise UnavailableError("The flights could not be produced", cause=self._failure)

    def stop(self) -> None:
        """End the thread; what is not sent by now is given up."""
        self._stopping.set()
        self._released.set()
        self._producer.purge()
        if self.ident is not None:
            self.join(_TIMEOUT)

    def run(self) -> None:
        """Send all, and wait until Kafka has acknowledged it."""
        at = min(_HEAD, len(self._flights))
        self._send(0, at)
        self._producer.flush(_TIMEOUT)
        self._released.wait()
        begun = time.monotonic() - at / max(1, self._rate)
        while at < len(self._flights) and not self._stopping.is_set() and not self._failure:
            until = int((time.monotonic() - begun) * self._rate) if self._rate else at + _SLICE
            self._send(at, max(at, until))
            at = min(max(at, until), len(self._flights))
            self._producer.poll(0)
            if self._rate:
                self._stopping.wait(_STEP)
        unsent = self._producer.flush(_TIMEOUT)
        if unsent and not self._stopping.is_set():
            self._failure = self._failure or f"Kafka did not answer for {_TIMEOUT:.0f} s"

    def _send(self, at: int, until: int) -> None:
        for flight in self._flights[at:until]:
            self._producer.produce(
                self._topic, flight.to_json(), key=flight.carrier, on_delivery=self._delivered
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.produced += 1
        elif not self._stopping.is_set():
            self._failure = error.str()
