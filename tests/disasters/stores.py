"""The stores that the query of these tests writes to: how each is copied, restored and counted."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from eo_listener import KafkaSink, PostgresSink, SqliteSink
from eo_listener.model.protocols import Sink
from eo_listener.sinks.kafka.ledger import SETTINGS
from tests.sinks.kafka.records import committed
from tests.sinks.postgres.course import ask as ask_postgres
from tests.sinks.postgres.course import script as script_postgres
from tests.sinks.sqlite.database import ask as ask_sqlite
from tests.sinks.sqlite.database import script as script_sqlite
from tests.topics import Topics

TABLE = "delays"
_LEDGER = ("eo_ledger", "eo_ledger_history")
_ROWS = f'SELECT partition, "offset" FROM {TABLE}'  # of no user
Rows = Counter[tuple[int, int]]
"""How often each offset of a partition of the source is there."""


class Store(Protocol):
    """A sink, and what a disaster does to it."""

    @property
    def address(self) -> str:
        """How a command line names its ledger."""

    def sink(self, name: str | None = None) -> Sink:
        """Open it; that in a topic under another name, too."""

    def transform(self, frame: DataFrame) -> DataFrame:
        """What is written of a batch."""

    def rows(self) -> Rows:
        """Count what is there."""

    def back_up(self) -> None:
        """Keep a copy of rows and ledger."""

    def restore(self) -> None:
        """Put back the copy that was kept last."""


@runtime_checkable
class SqlStore(Store, Protocol):
    """A database."""

    def restore_rows(self) -> None:
        """Put back the copy of the rows, and leave the ledger."""

    def append(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows beside the sink."""

    def empty(self) -> None:
        """Delete the rows of table and ledger."""


@dataclass
class SqliteStore:
    """A file."""

    path: Path

    @property
    def address(self) -> str:
        return f"sqlite:{self.path}"

    def sink(self, name: str | None = None) -> Sink:
        assert name is None
        return SqliteSink(self.path, TABLE)

    def transform(self, frame: DataFrame) -> DataFrame:
        return frame

    def rows(self) -> Rows:
        return Counter(ask_sqlite(self.path, _ROWS))

    def back_up(self) -> None:
        script_sqlite(self.path, f"VACUUM INTO '{self._copy}'")

    def restore(self) -> None:
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink()
        shutil.copyfile(self._copy, self.path)

    def restore_rows(self) -> None:
        script_sqlite(
            self.path,
            f"ATTACH '{self._copy}' AS copy; DELETE FROM {TABLE};"  # of no user
            f"INSERT INTO {TABLE} SELECT * FROM copy.{TABLE};",
        )

    def append(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            script_sqlite(self.path, _insert(row))

    def empty(self) -> None:
        for table in (TABLE, *_LEDGER):
            script_sqlite(self.path, f"DELETE FROM {table}")  # of no user

    @property
    def _copy(self) -> Path:
        return self.path.with_suffix(".copy")


@dataclass
class PostgresStore:
    """A schema."""

    dsn: str

    @property
    def address(self) -> str:
        return self.dsn

    def sink(self, name: str | None = None) -> Sink:
        assert name is None
        return PostgresSink(self.dsn, TABLE)

    def transform(self, frame: DataFrame) -> DataFrame:
        return frame

    def rows(self) -> Rows:
        return Counter(ask_postgres(self.dsn, _ROWS))

    def back_up(self) -> None:
        for table in (TABLE, *_LEDGER):
            script_postgres(self.dsn, f"CREATE TABLE copy_{table} AS TABLE {table}")

    def restore(self) -> None:
        self._put_back(TABLE, *_LEDGER)

    def restore_rows(self) -> None:
        self._put_back(TABLE)

    def append(self, rows: Iterable[tuple[Any, ...]]) -> None:
        script_postgres(self.dsn, *map(_insert, rows))

    def empty(self) -> None:
        script_postgres(self.dsn, f"TRUNCATE {', '.join((TABLE, *_LEDGER))}")

    def _put_back(self, *tables: str) -> None:
        for table in tables:
            copied = f"INSERT INTO {table} TABLE copy_{table}"
            script_postgres(self.dsn, f"TRUNCATE {table}", copied)


def _insert(row: tuple[Any, ...]) -> str:
    values = ", ".join(f"'{one}'" for one in row)
    return f"INSERT INTO {TABLE} VALUES ({values})"  # of no user


@dataclass
class KafkaStore:
    """A target and a ledger's topic; `topics` may do everything with them."""

    topics: Topics
    options: dict[str, str]
    target: str
    ledger: str
    _copies: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"kafka:{self.ledger}"

    def sink(self, name: str | None = None) -> Sink:
        return KafkaSink(self.options, self.target, name=name, ledger_topic=self.ledger)

    def transform(self, frame: DataFrame) -> DataFrame:
        return frame.selectExpr("to_json(struct(partition, offset)) AS value")

    def rows(self) -> Rows:
        values = (json.loads(one.value()) for one in committed(self.topics.servers, self.target))
        return Counter((value["partition"], value["offset"]) for value in values)

    def back_up(self) -> None:
        for topic in (self.target, self.ledger):
            self._copies[topic] = committed(self.topics.servers, topic)

    def restore(self) -> None:
        self._put_back(self.target)
        self.restore_ledger()

    def restore_ledger(self) -> None:
        """Put back the copy of the ledger's topic, and leave the target."""
        self._put_back(
            self.ledger, **{key.replace(".", "_"): value for key, value in SETTINGS.items()}
        )

    def lose_target(self) -> None:
        """Delete the target, and create it once more."""
        self.topics.delete(self.target)
        self.topics.create_as(self.target, 1)

    def lose_ledger(self) -> None:
        """Delete the ledger's topic."""
        self.topics.delete(self.ledger)

    def _put_back(self, topic: str, **settings: str) -> None:
        """Delete a topic, and create it once more with the records of the copy."""
        self.topics.delete(topic)
        self.topics.create_as(topic, 1, **settings)
        producer = Producer({"bootstrap.servers": self.topics.servers, "log_level": "0"})
        for one in self._copies[topic]:
            producer.produce(topic, key=one.key(), value=one.value(), partition=0)
        assert producer.flush(30) == 0
