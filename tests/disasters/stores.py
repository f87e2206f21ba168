"""The stores that the query of these tests writes to: how each is copied, restored and counted."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from eo_listener import KafkaSink, PostgresSink, SqliteSink
from eo_listener.model.protocols import Sink
from eo_listener.sinks.kafka.ledger import SETTINGS
from tests.sinks.kafka.records import committed
from tests.sinks.postgres import course as postgres
from tests.sinks.sqlite import database as sqlite
from tests.topics import Topics

TABLE = "delays"
_LEDGER = ("eo_ledger", "eo_ledger_history")
_TABLES = (TABLE, *_LEDGER)
Rows = Counter[tuple[int, int]]
"""How often each offset of a partition of the source is there."""


class Store(ABC):
    """A sink, and what a disaster does to it."""

    address: str  # how a command line names its ledger

    @abstractmethod
    def sink(self, name: str | None = None) -> Sink:
        """Open it; that in a topic under another name, too."""

    @abstractmethod
    def rows(self) -> Rows:
        """Count what is there."""

    @abstractmethod
    def back_up(self) -> None:
        """Keep a copy of rows and ledger."""

    @abstractmethod
    def restore(self) -> None:
        """Put back the copy that was kept last."""

    def transform(self, frame: DataFrame) -> DataFrame:
        """Make what is written of a batch."""
        return frame


class SqlStore(Store):
    @abstractmethod
    def ask(self, query: str) -> list[Any]:
        """Read it with a connection of its own."""

    @abstractmethod
    def change(self, *statements: str) -> None:
        """Change it with a connection of its own."""

    @abstractmethod
    def put_back(self, *tables: str) -> None:
        """Put back the copies of these tables."""

    def restore_rows(self) -> None:
        """Put back the copy of the rows, and leave the ledger."""
        self.put_back(TABLE)

    def restore_ledger(self) -> None:
        """Put back the copy of the ledger, and leave the rows."""
        self.put_back(*_LEDGER)

    def rows(self) -> Rows:
        return Counter(self.ask(f'SELECT partition, "offset" FROM {TABLE}'))  # of no user

    def append(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows beside the sink."""
        for row in rows:
            values = ", ".join(f"'{one}'" for one in row)
            self.change(f"INSERT INTO {TABLE} VALUES ({values})")  # of no user

    def empty(self) -> None:
        """Delete the rows of table and ledger."""
        self.change(*(f"DELETE FROM {table}" for table in _TABLES))  # of no user


class SqliteStore(SqlStore):
    def __init__(self, path: Path) -> None:
        self.path, self.address = path, f"sqlite:{path}"
        self._copy = path.with_suffix(".copy")

    def sink(self, name: str | None = None) -> Sink:
        assert name is None
        return SqliteSink(self.path, TABLE)

    def ask(self, query: str) -> list[Any]:
        return sqlite.ask(self.path, query)

    def change(self, *statements: str) -> None:
        sqlite.script(self.path, ";".join(statements))

    def back_up(self) -> None:
        self.change(f"VACUUM INTO '{self._copy}'")

    def restore(self) -> None:
        for file in self.path.parent.glob(f"{self.path.name}*"):
            file.unlink()
        shutil.copyfile(self._copy, self.path)

    def put_back(self, *tables: str) -> None:
        self.change(
            f"ATTACH '{self._copy}' AS copy",
            *(f"DELETE FROM {table}" for table in tables),  # of no user
            *(f"INSERT INTO {table} SELECT * FROM copy.{table}" for table in tables),  # of no user
        )


class PostgresStore(SqlStore):
    def __init__(self, dsn: str) -> None:
        self.address = dsn

    def sink(self, name: str | None = None) -> Sink:
        assert name is None
        return PostgresSink(self.address, TABLE)

    def ask(self, query: str) -> list[Any]:
        return postgres.ask(self.address, query)

    def change(self, *statements: str) -> None:
        postgres.script(self.address, *statements)

    def back_up(self) -> None:
        self.change(*(f"CREATE TABLE copy_{table} AS TABLE {table}" for table in _TABLES))

    def restore(self) -> None:
        self.put_back(*_TABLES)

    def put_back(self, *tables: str) -> None:
        for table in tables:
            self.change(f"TRUNCATE {table}", f"INSERT INTO {table} TABLE copy_{table}")


@dataclass
class KafkaStore(Store):
    """A target and a ledger's topic; `topics` may do everything with them."""

    topics: Topics
    options: dict[str, str]
    target: str
    ledger: str
    _copies: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.address = f"kafka:{self.ledger}"

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
        settings = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
        self._put_back(self.ledger, **settings)

    def lose_target(self) -> None:
        """Delete the target, and create it once more."""
        self.topics.delete(self.target)
        self.topics.create_as(self.target, 1)

    def lose_ledger(self) -> None:
        self.topics.delete(self.ledger)

    def _put_back(self, topic: str, **settings: str) -> None:
        """Delete a topic, and create it once more with the records of the copy."""
        self.topics.delete(topic)
        self.topics.create_as(topic, 1, **settings)
        copy = ({"key": one.key(), "value": one.value()} for one in self._copies[topic])
        self.topics.produce(topic, copy)
