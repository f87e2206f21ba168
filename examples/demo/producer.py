"""Replay flights into a topic, at a chosen speed, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as Unanswered  # its own class until Python 3.11
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from eo_listener.model.errors import UnavailableError
from examples.demo.demo_settings import Key
from examples.demo.flights import Flight

_STEP: Final = 0.02  # seconds between two reads of the clock
_SLICE: Final = 2_000  # rows sent between two checks when there is no rate to keep
_TIMEOUT: Final = 30.0  # seconds for the topic to be made, and for the last rows to arrive


def create_topic(servers: str, topic: str, partitions: int) -> None:
    """Make the topic. Raises UnavailableError."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    try:
        admin.create_topics([wanted], request_timeout=_TIMEOUT)[topic].result(_TIMEOUT)
    except (KafkaException, Unanswered) as error:
        raise UnavailableError(f"The topic {topic} could not be made", cause=str(error)) from error


class Replay:
    """Sends `flights` in their order; a row counts as produced when Kafka has acknowledged it.

    The first `HEAD` rows are sent at once, the others after `go_on`: Spark's first batch takes
    long, and is to be over when the speed is watched. `rate` is in rows per second, 0 as fast as
    possible.
    """

    HEAD: Final = 500

    def __init__(
        self, servers: str, topic: str, flights: Sequence[Flight], *, key: Key, rate: int
    ) -> None:
        self._topic = topic
        self._flights = flights
        self._key = key
        self._rate = rate
        self._acknowledged = 0
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._released = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # as Java's own producer spreads keys
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": "0",
            }
        )
        self._thread = threading.Thread(target=self._run, name="demo-producer", daemon=True)

    @property
    def produced(self) -> int:
        """Rows that Kafka has acknowledged so far."""
        return self._acknowledged

    @property
    def done(self) -> bool:
        """Whether the thread has ended: all sent, stopped, or failed."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Send the first rows."""
        self._thread.start()

    def go_on(self) -> None:
        """Send the rest."""
        self._released.set()

    def check(self) -> None:
        """Raise UnavailableError when a row could not be produced."""
        if self._failure is not None:
            raise UnavailableError("The flights could not be produced", cause=self._failure)

    def stop(self) -> None:
        """End the thread, now or when it has ended by itself; rows in flight are given up."""
        self._stopping.set()
        self._released.set()
        if self._thread.ident is not None:
            self._thread.join(_TIMEOUT)

    def _run(self) -> None:
        at = self.HEAD
        for flight in self._flights[:at]:
            self._send(flight)
        self._arrived()
        self._released.wait()
        begun = time.monotonic() - at / max(1, self._rate)
        while at < len(self._flights) and not self._stopping.is_set() and self._failure is None:
            until = self._due(at, time.monotonic() - begun)
            for flight in self._flights[at:until]:
                self._send(flight)
            at = until
            self._producer.poll(0)
            if self._rate:
                self._stopping.wait(_STEP)
        self._finish()

    def _due(self, at: int, elapsed: float) -> int:
        """Up to which row to send now."""
        due = int(elapsed * self._rate) if self._rate else at + _SLICE
        return min(max(at, due), len(self._flights))

    def _send(self, flight: Flight) -> None:
        key, value = flight.key(self._key), flight.to_json()
        while not self._stopping.is_set() and not self._accepted(key, value):
            self._producer.poll(0.1)

    def _accepted(self, key: str | None, value: str) -> bool:
        """Whether there was room in the producer's queue, or no sense in trying again."""
        try:
            self._producer.produce(self._topic, key=key, value=value, on_delivery=self._delivered)
        except BufferError:
            return False
        except KafkaException as error:
            self._failure = str(error)
        return True

    def _finish(self) -> None:
        if self._arrived():
            return
        self._producer.purge()
        self._producer.flush(1)
        if not self._stopping.is_set():
            self._failure = self._failure or f"Kafka did not answer for {_TIMEOUT:.0f} s"

    def _arrived(self) -> bool:
        """Wait until all rows have arrived, unless that is to stop; say whether they have."""
        deadline = time.monotonic() + _TIMEOUT
        while not self._stopping.is_set() and time.monotonic() < deadline:
            if self._producer.flush(0.2) == 0:
                return True
        return False

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
        elif not self._stopping.is_set():
            self._failure = self._failure or error.str()
