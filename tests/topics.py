"""Topics with records, for tests against a real broker."""

from __future__ import annotations

import itertools
import os

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # no __all__

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A name that no other test of this or an earlier run has used."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


class Topics:
    """Creates topics on one broker and fills them."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})

    def create(self, prefix: str = "t", partitions: int = 3) -> str:
        """Create a topic with a name of its own."""
        name = unique(prefix)
        self.create_as(name, partitions)
        return name

    def create_as(self, name: str, partitions: int = 3) -> None:
        """Create a topic of this name."""
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=30)

    def fill(self, topic: str, records: int, *, transactional: bool = False) -> None:
        """Append records with the keys 0, 1, 2, ...; in one transaction where asked."""
        settings = {"bootstrap.servers": self.servers, "linger.ms": "5", "log_level": "0"}
        if transactional:
            settings["transactional.id"] = unique("tx")
        producer = Producer(settings)
        if transactional:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, key=str(number), value=str(number))
            producer.poll(0)
        if transactional:
            producer.commit_transaction(30)
        assert producer.flush(30) == 0
