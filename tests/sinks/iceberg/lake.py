"""What tests do with Iceberg tables: make, read and change them as other programs would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from eo_listener.model.ledger import Entry
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.testing.made_up_entries import QUERY, Row, entry_of, heads_of
from tests.sinks.chapters.lake import interpret
from tests.sinks.chapters.store import NAMES, frame_of
from tests.sinks.chapters.target_table import SparkTarget

TP = TopicPartition("flights", 0)


def entry(number: int, query: str = QUERY, *, run_id: str = "run-1") -> Entry:
    """Batch `number` of a query, after those before it."""
    heads = heads_of(entry(number - 1, query)) if number else {}
    ranges = {TP: OffsetRange(number, number + 1)}
    return entry_of(heads, ranges, batch_id=number, query=query, run_id=run_id)


class Lake:
    """One catalog of one session; each test has a namespace of its own."""

    name = "lake"

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._numbers = count()
        self.namespace = ""
        use(spark, catalog_conf(self.name, folder))

    def begin(self, namespace: str = "") -> None:
        self.namespace = namespace or f"db{next(self._numbers)}"
        self.spark.sql(f"CREATE NAMESPACE {self.name}.{self.namespace}")

    def other(self) -> SparkSession:
        """Another session, which caches no table and knows nothing of what this one has cached."""
        return self._other

    @cached_property
    def _other(self) -> SparkSession:
        return self.another_session()

    def another_session(self, **conf: str) -> SparkSession:
        session = self.spark.newSession()
        interpret(session)
        uncached = {f"spark.sql.catalog.{self.name}.cache-enabled": "false"}
        use(session, {**catalog_conf(self.name, self.folder), **uncached, **conf})
        return session

    def table(self, table: str) -> str:
        return f"{self.name}.{self.namespace}.`{table.replace('`', '``')}`"

    def sink(self, table: str, **given: Any) -> IcebergSink:
        return IcebergSink(self.table(table), **given)

    def java(self, table: str) -> IcebergTable:
        """The table through Iceberg's own classes, by another session."""
        name = TableName.parse(self.table(table))
        loaded = IcebergTable.load(self.other(), name.sql, self.name)
        assert loaded is not None
        return loaded

    def rows(self, table: str) -> list[Row]:
        """The rows that another session reads; none where there is no table."""
        session = self.other()
        if not session.catalog.tableExists(self.table(table)):
            return []
        found = session.table(self.table(table)).select(*NAMES).collect()
        return [(one[0], one[1], one[2], one[3]) for one in found]

    def frame(self, rows: Sequence[Row], session: SparkSession | None = None) -> DataFrame:
        return frame_of(session or self.spark, rows)

    def append(self, table: str, rows: Sequence[Row]) -> None:
        name = TableName.parse(self.table(table)).sql
        self.frame(rows, self.other()).writeTo(name).append()

    def roll_back(self, table: str, snapshot: int | None) -> None:
        self.java(table)._table.manageSnapshots().rollbackTo(snapshot).commit()

    def expire(self, table: str) -> None:
        expiry = self.java(table)._table.expireSnapshots()
        expiry.expireOlderThan(2**62).retainLast(1).commit()


class IcebergTarget(SparkTarget):
    provider = "iceberg"
    counts_changes = False  # how many rows a MERGE has changed Iceberg does not tell
    table = "t"

    @pytest.fixture
    def _store(self, lake: Lake) -> None:
        self.lake, self.spark = lake, lake.spark
        self._numbers = count()

    def begin(self) -> None:
        self.table = f"t{next(self._numbers)}"

    def new_sink(self, **arguments: Any) -> IcebergSink:
        return self.lake.sink(self.table, **arguments)

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self._collect(self.table, *columns)))

    def letters(self) -> list[dict[str, Any]]:
        return [one.asDict() for one in self._collect("bad", "*")]

    def _collect(self, table: str, *columns: str) -> list[SparkRow]:
        session, name = self.lake.other(), self.lake.table(table)
        if not session.catalog.tableExists(name):
            return []
        return session.table(name).selectExpr(*columns).collect()

    def run(self, statement: str) -> None:
        self.lake.other().sql(statement.format(table=self.lake.table(self.table)))


def use(session: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        session.conf.set(key, value)


def catalog_conf(name: str, folder: Path | str) -> dict[str, str]:
    """The settings of a catalog in a folder: its database and its tables' files."""
    catalog = f"spark.sql.catalog.{name}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.jdbc.strict-mode": "true",
        f"{catalog}.warehouse": f"file:{folder}/files",
    }
