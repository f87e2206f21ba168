"""What a store holds, read from outside: the table, the ledger's heads and its history."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import psycopg
from pyarrow import parquet

from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.delta.commits import Commit
from eo_listener.sinks.kafka import KafkaSink
from tests.attack.exactly_once.driver import LETTERS, QUERY, TABLE, ledger_of
from tests.sinks.iceberg.java_tables import Catalog
from tests.sinks.kafka.records import committed


@dataclass(frozen=True, slots=True)
class Written:
    """One row of the history: a range, the batch and the run that wrote it, and how many rows."""

    partition: TopicPartition
    range: OffsetRange
    batch: int
    run: str
    rows: int
    verdict: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """All of it at one moment, from one transaction. `rows` are those of the table, in order.

    `history` is None where the store keeps none. `branches` is how many the sinks of an Iceberg
    table have there, then those of the table of its dead letters. `letters` are the rows of that,
    in order, None where there is none. `last` is where the last batch began, in each partition that
    it has moved.
    """

    rows: tuple[tuple[Any, ...], ...]
    heads: dict[TopicPartition, int]
    history: tuple[Written, ...] | None = None
    branches: tuple[int, ...] = ()
    letters: tuple[tuple[Any, ...], ...] | None = None
    last: Mapping[TopicPartition, int] = field(default_factory=dict)


class Store(Protocol):
    def read(self, columns: str) -> Holding:
        """Read it; what was not made yet is empty."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaStore:
    """A topic with rows as JSON, and the ledger's topic; open transactions do not count."""

    servers: str
    topic: str

    def read(self, columns: str) -> Holding:
        """Read what is committed; what was sent to be committed just now is waited for."""
        names = columns.replace('"', "").split(", ")
        found = [json.loads(one.value()) for one in committed(self.servers, self.topic)]
        options = {"kafka.bootstrap.servers": self.servers}
        with closing(KafkaSink(options, self.topic, ledger_topic=ledger_of(self.topic))) as sink:
            heads = sink.applied(QUERY)
        return Holding(
            rows=tuple(sorted(tuple(row[name] for name in names) for row in found)),
            heads=_ends(heads),
        )


@dataclass(frozen=True, slots=True)
class DeltaStore:
    """A Delta table in a local folder, read without Delta by the files of its log."""

    path: Path

    def read(self, columns: str) -> Holding:
        """Read it at its newest version."""
        files: dict[str, None] = {}
        heads: Mapping[TopicPartition, Head] = {}
        for version, log in enumerate(sorted(self.path.glob("_delta_log/*.json"))):
            lines = log.read_text().splitlines()
            commit = Commit.parse(version, lines)
            if commit.record is not None:
                heads = commit.record.ledger.heads
            for action in map(json.loads, lines):
                if "add" in action:
                    files[unquote(action["add"]["path"])] = None
                elif "remove" in action:
                    del files[unquote(action["remove"]["path"])]
        names = columns.replace('"', "").split(", ")
        return Holding(
            rows=_rows((self.path / file for file in files), names),
            heads=_ends(heads),
        )


@dataclass(frozen=True, slots=True)
class IcebergStore:
    """A table of an Iceberg catalog, read without Spark. It must have no delete files."""

    catalog: Catalog
    letters: bool = False  # whether it has a table of dead letters beside it

    def read(self, columns: str) -> Holding:
        """Read what main has, rows and heads of one moment."""
        names = columns.replace('"', "").split(", ")
        letters: tuple[tuple[Any, ...], ...] | None = None
        tables = [TABLE]
        if self.letters:
            there = self.catalog.has(LETTERS)
            letters = _rows(self.catalog.files(self.catalog.load(LETTERS)), names) if there else ()
            tables += [LETTERS] if there else []
        if not self.catalog.has(TABLE):
            return Holding(rows=(), heads={}, letters=letters)
        table = self.catalog.load(TABLE)
        heads = self.catalog.heads(table, QUERY)
        newest = max((head.batch_id for head in heads.values()), default=-1)
        return Holding(
            rows=_rows(self.catalog.files(table), names),
            heads=_ends(heads),
            branches=tuple(map(self.catalog.branches, tables)),
            letters=letters,
            last={tp: one.range.start for tp, one in heads.items() if one.batch_id == newest},
        )


@dataclass(frozen=True, slots=True)
class Database:
    """A database in which a sink keeps a table and its ledger; `tables` lists what there is."""

    connect: Callable[[], Any]
    tables: str
    begin: str = "BEGIN"

    @classmethod
    def sqlite(cls, path: Path | str) -> Database:
        def connect() -> sqlite3.Connection:
            return sqlite3.connect(path, isolation_level=None, timeout=30)

        return cls(connect, tables="SELECT name FROM sqlite_master WHERE type = 'table'")

    @classmethod
    def postgres(cls, dsn: str) -> Database:
        def connect() -> psycopg.Connection:
            return psycopg.connect(dsn, autocommit=True, connect_timeout=10)

        # One snapshot: tasks may still write when their driver is dead.
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        return cls(connect, begin=begin, tables=tables)

    def read(self, columns: str) -> Holding:
        """Read it; a table that was not made yet is empty."""
        with closing(self.connect()) as connection:
            connection.execute(self.begin)
            there = {name for (name,) in connection.execute(self.tables).fetchall()}

            def select(columns: str, table: str, order: str) -> list[tuple[Any, ...]]:
                if table not in there:
                    return []
                text = f"SELECT {columns} FROM {table} ORDER BY {order}"  # our own words
                found: list[tuple[Any, ...]] = connection.execute(text).fetchall()
                return found

            rows = select(columns, TABLE, columns)
            heads = select("topic, partition, next_offset", "eo_ledger", "topic, partition")
            history = select(
                "topic, partition, start_offset, next_offset, batch_id, run_id, rows, verdict",
                "eo_ledger_history",
                "topic, partition, next_offset, start_offset, batch_id",
            )
            connection.execute("COMMIT")
        return Holding(
            rows=tuple(tuple(row) for row in rows),
            heads={TopicPartition(topic, number): until for topic, number, until in heads},
            history=tuple(
                Written(TopicPartition(topic, number), OffsetRange(start, until), *rest)
                for topic, number, start, until, *rest in history
            ),
        )


def _ends(heads: Mapping[TopicPartition, Head]) -> dict[TopicPartition, int]:
    return {tp: head.range.until for tp, head in sorted(heads.items())}


def _rows(files: Iterable[Path], names: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """Those of data files, in order."""
    found = [row for file in files for row in parquet.read_table(file).to_pylist()]
    return tuple(sorted(tuple(row[name] for name in names) for row in found))
