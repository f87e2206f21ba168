"""PostgresSink: the arguments that a user gives, and the methods that a batch calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import psycopg

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SettingsError, SinkError
from eo_listener.model.check_finding import CheckFinding, Findings, checked
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.arrow_rows import TASK_ROWS, TaskSize
from eo_listener.sinks.dead_letters import SHARE
from eo_listener.sinks.postgres import check
from eo_listener.sinks.postgres import dead_letters as letters_table
from eo_listener.sinks.postgres.catalog import (
    check_durable,
    existing_tables,
    make_target,
    schema_of,
)
from eo_listener.sinks.postgres.columns import ColumnLayout, check_names
from eo_listener.sinks.postgres.connection import Connection, answers, connect, usable
from eo_listener.sinks.postgres.conninfo import ConnectionSettings
from eo_listener.sinks.postgres.errors import lost, translated
from eo_listener.sinks.postgres.executor_tasks import NoConnectionError, NotSentError
from eo_listener.sinks.postgres.executor_writers import NoStagingError, Partitions, Staging, rows_of
from eo_listener.sinks.postgres.ledger import Ledger, sink_key
from eo_listener.sinks.postgres.method_choice import ChosenMethod, MethodChoice
from eo_listener.sinks.postgres.transaction import Rows, TransactionWriter
from eo_listener.sinks.postgres.types import as_text
from eo_listener.sinks.postgres.user_sql import check_apply
from eo_listener.sinks.postgres.write_methods import Choice, WriteMethod
from eo_listener.sinks.target import Apply, Target, refuse_dropped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.sinks.postgres.connection import Identity

_Answer = TypeVar("_Answer")
_STILL_THERE: Final = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s AND backend_start = %s
               AND xact_start IS NOT DISTINCT FROM %s)
"""
_END: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_start = %s AND xact_start IS NOT DISTINCT FROM %s
"""


class PostgresSink:
    """Writes batches into PostgreSQL, each in the transaction that moves its ledger.

    `dsn` is a connection string or URI, or a function that returns one, which the sink calls for
    each connection. `table` and the ledger are in `schema`. If it is None, they are in the schema
    in which the search_path finds the table, or else in the first schema of the search_path. The
    sink creates table and ledger if they do not exist, unless `create` is False. `mode`: "append",
    or "upsert" with `keys`, which keeps the newest row of each key, by `version_column` if you name
    one, otherwise by offset. `apply`: your own SQL statements, or a function of (connection,
    entry), which run in the transaction; the batch's rows are in the table eo_batch, and `table` is
    then only the sink's name in the ledger. `dead_letters` names a table for rows that cannot be
    written. `max_dead_letters` limits them in each transaction: an int is a number of rows, a float
    a share of the rows.

    `atomicity`: with "batch", a batch is one transaction; with "partition", each of its Kafka
    partitions may be a transaction of its own, in the task that reads it. `write_method`: with
    "driver", rows go through the driver, in tasks of `task_rows` planned rows. With "staging", the
    executors first write them into a staging table (with `logged_staging`, this table survives a
    crash of the server). With "auto", the executors write batches of at least `executor_rows`
    planned rows (default: 5,000,000 through a staging table, or 200,000 by partition), if a check
    at the start found that they can. The executors open at most `max_connections` connections at a
    time. Time-outs are in seconds. Raises SettingsError.
    """

    def __init__(
        self,
        dsn: str | Callable[[], str],
        table: str,
        *,
        schema: str | None = None,
        mode: Literal["append", "upsert"] = "append",
        keys: str | Sequence[str] = (),
        version_column: str | None = None,
        apply: Apply | None = None,
        create: bool = True,
        dead_letters: str | None = None,
        max_dead_letters: float = SHARE,
        write_method: Literal["auto", "driver", "staging"] = "auto",
        atomicity: Literal["batch", "partition"] = "batch",
        task_rows: int = TASK_ROWS,
        executor_rows: int | None = None,
        max_connections: int | None = None,
        logged_staging: bool = False,
        connect_timeout: float = 10,
        lock_timeout: float = 10,
        statement_timeout: float = 600,
    ) -> None:
        self._target = Target.from_arguments(
            table=table,
            mode=mode,
            keys=keys,
            version_column=version_column,
            apply=apply,
            create=create,
            dead_letters=dead_letters,
            max_dead_letters=max_dead_letters,
        )
        optional = (schema, dead_letters)
        check_names([table, *self._target.keys, *(name for name in optional if name is not None)])
        check_apply(self._target)
        access = ConnectionSettings(
            dsn=dsn,
            schema=schema,
            connect_timeout=connect_timeout,
            lock_timeout=lock_timeout,
            statement_timeout=statement_timeout,
        )
        choice = Choice.from_arguments(
            write_method=write_method,
            atomicity=atomicity,
            rows=executor_rows,
            connections=max_connections,
        )
        self._choice = choice
        self._method_choice = MethodChoice(choice)
        self._size = TaskSize(task_rows)
        self._logged = logged_staging
        self._kept = KeptConnection(access)

    def __repr__(self) -> str:
        return f"<PostgresSink {self.label}>"

    @property
    def label(self) -> str:
        """The table and its server, for display."""
        return f"PostgreSQL table {self.key} at {self._kept.access.place()}"

    @property
    def key(self) -> str:
        """The table as SQL writes it, with its schema once that is known."""
        return sink_key(self._kept.access.schema, self._target.table)

    @property
    def per_partition(self) -> bool:
        """True if a Kafka partition may have a transaction of its own."""
        return self._choice.by_partition

    @property
    def ledger_place(self) -> LedgerPlace:
        """The address of the database, and the schema of the ledger."""
        access = self._kept.access
        return LedgerPlace(address=access.address(), schema=access.schema, is_known=access.is_known)

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`; first wait for the end of a COMMIT that got no answer."""
        return self._ask_ledger(query, self._heads)

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read the heads whose last move was by `query_id`, in all ledgers of the database."""
        return self._ask_ledger(
            self._kept.query, lambda link, writer: writer.ledger.moved_by(link, query_id)
        )

    def _ask_ledger(
        self, query: str, question: Callable[[Connection, TransactionWriter], _Answer]
    ) -> _Answer:
        try:
            writer = self._writer(query)
            return self._kept.ask(writer, lambda link: question(link, writer))
        except psycopg.Error as error:
            raise translated(error, self.label, "reading its ledger") from error

    def _heads(self, link: Connection, writer: TransactionWriter) -> Mapping[TopicPartition, Head]:
        self._kept.resolve_unknown_commit(link, writer.label)
        return writer.ledger.applied(link, writer.query, create=self._target.create)

    def apply(self, frame: DataFrame, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the rows of `frame`, and the ledger entry `entry`, in one transaction or several.

        With `atomicity="partition"`, each partition may have its own transaction.
        """
        try:
            return self._write_or_fall_back(self._writer(entry.query), frame, entry, plan)
        except OutcomeUnknownError:
            self._kept.remember_unknown_commit()
            raise
        except psycopg.Error as error:
            raise translated(error, self.label, "reading the table") from error

    def _write_or_fall_back(
        self, writer: TransactionWriter, frame: DataFrame, entry: Entry, plan: PlannedBatch
    ) -> Applied:
        chosen = self._kept.ask(
            writer,
            lambda link: self._method_choice.method(frame, entry, plan, writer=writer, link=link),
        )
        try:
            return self._write(chosen, writer, frame, entry, plan)
        except (NoConnectionError, NoStagingError, NotSentError) as error:
            # If the driver has no connection either, the server is unavailable, which is not the
            # fault of the method.
            away = not answers(self._kept.connection(writer))
            if away or not self._method_choice.fall_back_to_driver(error, self.label):
                raise error.plain() if isinstance(error, NoConnectionError) else error from None
            # Other tasks may have written, so the heads must be read again.
            if chosen.method is WriteMethod.TASKS:
                raise error.as_kind(RetriableSinkError) from error
        return self._write(chosen._replace(method=WriteMethod.DRIVER), writer, frame, entry, plan)

    def _write(
        self,
        chosen: ChosenMethod,
        writer: TransactionWriter,
        frame: DataFrame,
        entry: Entry,
        plan: PlannedBatch,
    ) -> Applied:
        direct = writer.direct and chosen.method is not WriteMethod.STAGING
        layout = self._kept.ask(
            writer, lambda link: self._layout(link, frame, writer, direct=direct)
        )
        link = self._kept.connection(writer)
        frame = as_text(frame, layout.formats)
        if chosen.method is WriteMethod.DRIVER and chosen.ranges is not None:
            frame = rows_of(frame, chosen.ranges, entry)  # only of partitions not written yet
        rows = Rows(frame=frame, layout=layout, fetch=partial(self._size.stream, frame, plan))
        return self._batch_writer(chosen, writer).write(link, rows, entry)

    def _batch_writer(
        self, chosen: ChosenMethod, writer: TransactionWriter
    ) -> TransactionWriter | Staging | Partitions:
        most = self._choice.connections
        if chosen.method is WriteMethod.STAGING:
            return Staging(writer=writer, logged=self._logged, at_most=most)
        if chosen.method is WriteMethod.TASKS and chosen.ranges is not None:
            beside = replace(writer, alone=False)
            return Partitions(writer=beside, ranges=chosen.ranges, at_most=most)
        return writer

    def check(self, query: str | None = None) -> list[CheckFinding]:
        """Return findings about obstacles and risks for the batches; change nothing.

        The method checks the server, the tables, the rights of the role, and the ledger of `query`.
        """
        return list(checked(self.label, self._findings(query)))

    def _findings(self, query: str | None) -> Findings:
        try:
            yield from check.findings(self._writer(query or ""), query)
        except psycopg.Error as error:
            raise translated(error, self.label, "checking its tables") from error

    def close(self) -> None:
        """Close the connection."""
        self._kept.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": copy(self._kept)}  # which leaves the connection behind

    def _writer(self, query: str) -> TransactionWriter:
        table = None if self._target.apply else self._target.table
        access = self._kept.placed(table, self.label)
        ledger = Ledger(key=self.key, label=self.label, schema=access.schema or "")
        return TransactionWriter(
            access=access,
            ledger=ledger,
            target=self._target,
            query=query,
            alone=True,
            keeps=self._choice.connections is None,
        )

    def _layout(
        self, link: Connection, frame: DataFrame, writer: TransactionWriter, *, direct: bool
    ) -> ColumnLayout:
        target, schema = self._target, writer.access.schema
        main = None if target.apply else target.table
        names = [name for name in (main, target.dead_letters) if name is not None]
        existing = existing_tables(link, schema, names)
        for name, table in existing.items():
            check_durable(link, schema, name, table.not_durable)
        columns = existing[main].columns if main in existing else None
        layout = ColumnLayout.from_schema(frame.schema.jsonValue(), columns, target, direct=direct)
        if main is not None and columns is None:
            heads = writer.ledger.read(link, writer.query).heads
            refuse_dropped(self.label, self.key, writer.query, heads)
            make_target(link, layout, target.keys, (schema, main), create=target.create)
        if target.dead_letters is not None and target.dead_letters not in existing:
            letters_table.make(link, schema, target.dead_letters, create=target.create)
        return layout


class KeptConnection:
    """The connection that a sink keeps between batches.

    `access` has the connection's settings, and its schema and address once they are known. `link`
    is the connection for the batches of `query`. Pickling and copying leave `link` out, and a
    forked process does not use the connection of its parent.
    """

    link: Connection | None = None  # also if unpickling failed, so `__init__` was not called
    _owner = 0

    def __init__(self, access: ConnectionSettings) -> None:
        self.access = access
        self.query = ""
        self._unknown_commit: Identity | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "link": None}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self.link is not None and self._owner == os.getpid():
            self.link.close()
        self.link = None  # a fork leaves its parent's connection alone

    def placed(self, table: str | None, label: str) -> ConnectionSettings:
        """Return the connection settings with the schema of `table`, looked up only once.

        So the ledger stays the same, even if the search_path changes later (apply= may do that), or
        another schema gets a table of the same name.
        """
        if self.access.schema is None:
            with connect(self.access, label, "eo_listener") as link:
                schema = schema_of(link, table)
                self._note_place(link)
            if schema is None:
                raise SettingsError(
                    f"{label}: the search_path of its role has no schema that exists",
                    fix="Name a schema: schema=...",
                )
            self.access = replace(self.access, schema=schema)
        return self.access

    def connection(self, writer: TransactionWriter) -> Connection:
        """Return the kept connection, or a new one if it was lost or belongs to another query."""
        link = self.link
        is_own = self._owner == os.getpid() and self.query == writer.query
        if link is None or not is_own or not usable(link):
            self.close()
            link = self.link = writer.open()
            self._owner = os.getpid()
            self.query = writer.query
            self._note_place(link)
        return link

    def _note_place(self, link: Connection) -> None:
        """Keep the address of a function's first dsn, so that the sink's label stays the same.

        Later dsns may lead to another server, for example after a failover.
        """
        if not isinstance(self.access.dsn, str) and self.access.led_to is None:
            self.access = replace(self.access, led_to=link.place)

    def ask(self, writer: TransactionWriter, question: Callable[[Connection], _Answer]) -> _Answer:
        """Call `question` with the kept connection; if it was lost, again with a new one.

        A firewall, a pooler or the server ends connections that are idle between two batches.
        """
        before = self.link
        link = self.connection(writer)
        try:
            return question(link)
        except psycopg.Error as error:
            if link is not before or not lost(error):
                raise
        self.close()
        return question(self.connection(writer))

    def remember_unknown_commit(self) -> None:
        """If the kept connection is closed, note that the outcome of its COMMIT is unknown."""
        link = self.link  # read once: another thread may close the sink
        if link is not None:
            self._unknown_commit = link.identity if link.closed else None

    def resolve_unknown_commit(self, link: Connection, label: str) -> None:
        """Wait for the end of a backend whose COMMIT got no answer; end it after `lock_timeout`."""
        begun, timeout = monotonic(), self.access.lock_timeout
        while self._unknown_commit is not None:
            row = link.execute(_STILL_THERE, self._unknown_commit).fetchone()
            if row is None or not row[0]:
                self._unknown_commit = None
                return
            waited = monotonic() - begun
            if waited > 2 * timeout:
                raise SinkError(
                    f"{label}: backend {self._unknown_commit.pid} is still committing a batch",
                    cause="the server or a standby that it waits for hangs or is overloaded",
                    fix="Watch pg_stat_activity, and restart the query when the backend has ended",
                )
            if waited > timeout:
                link.execute(_END, self._unknown_commit)
            sleep(0.05)
