"""Where the group stands, read all the while: by our reader, and by Kafka's own tool."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.model import lag
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import TopicPartition
from examples.demo.demo_settings import GROUP, TOPIC
from tests import broker
from tests.broker.errors import BrokerError

_TIMEOUT: Final = 15.0  # seconds for a read that is running to end


class Repeater:
    """Calls `read` again and again, `pause` seconds after the last call, until it is stopped."""

    def __init__(self, name: str, read: Callable[[], None], pause: float) -> None:
        self._read = read
        self._pause = pause
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Read for the first time now."""
        self._thread.start()

    def stop(self, timeout: float = _TIMEOUT) -> None:
        """Read no more, and wait `timeout` seconds at most for a read that is running."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._read()
            self._stopping.wait(self._pause)


class OurReading:
    """Where the group stands, as our reader saw it last."""

    def __init__(self, servers: str, partitions: int) -> None:
        self._reader = ClusterReader({"bootstrap.servers": servers})
        self._partitions = tuple(TopicPartition(TOPIC, number) for number in range(partitions))
        self.rows: tuple[lag.PartitionLag, ...] = ()

    def read(self) -> None:
        """Read group and log ends; what was read last stays when Kafka does not answer."""
        try:
            committed = self._reader.group(GROUP, self._partitions)
            self.rows = lag.compare(committed, self._reader.log_ends(self._partitions))
        except KafkaError:
            return  # the next read is near; a lasting failure ends in the limit of the drain


class ToolReading:
    """Where the group stands, as kafka-consumer-groups said it last."""

    def __init__(self, servers: str, version: str) -> None:
        self._servers = servers
        self._commands = broker.commands(version)
        self.rows: tuple[broker.GroupRow, ...] = ()
        self._at: float | None = None

    @property
    def ago(self) -> float | None:
        """Seconds since it was said; None before the first time."""
        return None if self._at is None else time.monotonic() - self._at

    def ask(self) -> str:
        """Return what the tool prints, and remember its rows. Raises BrokerError."""
        text = broker.consumer_groups(self._commands, self._servers, GROUP)
        self.rows = broker.parse_rows(text)
        self._at = time.monotonic()
        return text

    def read(self) -> None:
        """Run the tool; it fails as long as the group does not exist, which is expected."""
        with contextlib.suppress(BrokerError):
            self.ask()
