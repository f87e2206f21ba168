"""Wait until a broker really answers, which is later than its port is open."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

TIMEOUT: Final = 60.0  # seconds; twelve times what a start takes on two cores


def wait(addresses: Sequence[str], nodes: frozenset[int], check: Callable[[], None]) -> bool:
    """Return whether every address answered in time with metadata that names all `nodes`.

    `check` is called between the tries and raises when waiting has lost its sense.
    """
    deadline = time.monotonic() + TIMEOUT
    return all(_one(address, nodes, check, deadline) for address in addresses)


def _one(address: str, nodes: frozenset[int], check: Callable[[], None], deadline: float) -> bool:
    host, _, port = address.rpartition(":")
    while not _open(host, int(port)):
        check()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    admin = AdminClient(
        {
            "bootstrap.servers": address,
            "log_level": 0,  # what goes wrong while it starts is of no interest
            "reconnect.backoff.max.ms": 200,
        }
    )
    while True:
        check()
        try:
            if nodes <= admin.list_topics(timeout=2).brokers.keys():
                return True
        except KafkaException:
            pass  # not yet: it is asked again until the deadline
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _open(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
