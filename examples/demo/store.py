"""The store of the flights, and its rows, counted in another way than the sink does."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

import eo_listener  # whose sinks are loaded when they are named: that of two loads pyspark
from examples.demo.producer import create_topic

if TYPE_CHECKING:
    from eo_listener.model.protocols import Sink

TOPIC: Final = "flights"
GROUP: Final = "flights-demo"
QUERY: Final = "flights"
PARTITIONS: Final = 4
TARGET: Final = "flights-copied"  # the topic that a Kafka sink writes to
_TABLE: Final = "flights"


class Store(str, Enum):
    """The store into which each flight is written exactly once."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    KAFKA = "kafka"

    def sink(self, where: str) -> Sink:
        """Return the sink; `where` is a file, a DSN, or brokers."""
        if self is Store.SQLITE:
            return eo_listener.SqliteSink(where, table=_TABLE)
        if self is Store.POSTGRES:
            return eo_listener.PostgresSink(where, table=_TABLE)
        options = {"kafka.bootstrap.servers": where}
        return eo_listener.KafkaSink(options, TARGET, group=GROUP, write_method="executors")

    @contextlib.contextmanager
    def opened(self, servers: str, folder: Path) -> Iterator[tuple[str, StoredRows]]:
        """Prepare it; yield its place and its rows. A server's files are gone afterwards."""
        with contextlib.ExitStack() as stack:
            if self is Store.SQLITE:
                where = str(folder / "flights.sqlite")
            elif self is Store.KAFKA:
                # Another number than the source's: each has rows of several of its partitions.
                create_topic(servers, TARGET, PARTITIONS + 1)
                where = servers
                yield where, stack.enter_context(contextlib.closing(_TopicRows(servers)))
                return
            else:
                from tests.postgres_server import running  # noqa: PLC0415  # it needs pytest

                where = stack.enter_context(running()).dsn()
            yield where, _TableRows(self, where)


class StoredRows(Protocol):
    """The flights that are there, by partition and offset of their records in the source."""

    def count(self) -> int:
        """Return how many rows are there by now."""
        ...

    def records(self) -> Counter[tuple[int, int]]:
        """Return how many rows there are of each record."""
        ...


class _TableRows:
    def __init__(self, store: Store, where: str) -> None:
        self._store = store
        self._where = where

    def count(self) -> int:
        try:
            return int(self._ask("SELECT count(*) FROM flights")[0][0])
        except Exception:  # noqa: BLE001  # of two libraries: the table is not there yet, or locked
            return 0

    def records(self) -> Counter[tuple[int, int]]:
        rows = self._ask('SELECT "partition", "offset", count(*) FROM flights GROUP BY 1, 2')
        return Counter({(partition, offset): count for partition, offset, count in rows})

    def _ask(self, statement: str) -> list[Any]:
        if self._store is Store.SQLITE:
            opened: Any = sqlite3.connect(self._where, timeout=10)
        else:
            import psycopg  # noqa: PLC0415  # only this store needs it

            opened = psycopg.connect(self._where)
        with contextlib.closing(opened):
            return list(opened.execute(statement).fetchall())


class _TopicRows:
    """A reader under read_committed, which reads from the first record on."""

    def __init__(self, servers: str) -> None:
        self._seen: Counter[tuple[int, int]] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "flights-reader",  # librdkafka wants one; it is never joined
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TARGET, n, 0) for n in range(PARTITIONS + 1)])

    def count(self) -> int:
        while messages := self._consumer.consume(5_000, timeout=0.5):
            for message in messages:
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                headers: dict[str, Any] = dict(message.headers() or [])
                self._seen[int(headers["partition"]), int(headers["offset"])] += 1
        return self._seen.total()

    def records(self) -> Counter[tuple[int, int]]:
        self.count()
        return self._seen

    def close(self) -> None:
        self._consumer.close()
