"""Reads the ledgers of a Delta table outside a query, in a Spark session of its own; read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from eo_listener.errors import JvmError, RetriableSinkError, SettingsError, SinkError
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.sinks.delta.arguments import Target
from eo_listener.sinks.delta.commits import QueryState
from eo_listener.sinks.delta.connection import Connection, TableLog
from eo_listener.sinks.delta.errors import taken_back
from eo_listener.sinks.ledger_steps import (
    BATCHES_READ,
    LedgerStep,
    applied_batches,
    moved_at,
    newest_steps,
)
from eo_listener.sinks.spark_row_origins import row_origins
from eo_listener.spark.checkpoint.location import shown
from eo_listener.spark.jvm.calls import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eo_listener.sinks.ledger_text import Heads


_REFUSALS: Final = ("AccessDeniedException", "AccessControlException")
"""The class names, without packages, of file systems' errors about missing permissions."""


class DeltaLedgerReader:
    """The `LedgerReader` of a Delta table; `place` is the name or path that was passed to the sink.

    `session` returns the session to read it in.

    If `query` is given and the reader cannot determine the ledger of a different query, it returns
    that ledger without heads; if `query` is None, it raises an error. The history covers the newest
    `batches`. Raises SettingsError for an invalid place.
    """

    def __init__(
        self,
        place: str,
        session: Callable[[], SparkSession],
        *,
        query: str | None = None,
        batches: int = BATCHES_READ,
    ) -> None:
        self._place = place
        self._target = Target.to_read(place)
        self._session = session
        self._query = query
        self._batches = batches
        self._connection = Connection(self._target, self.label, writes=False)
        self._log: TableLog | None = None

    @property
    def label(self) -> str:
        """The table or the path, for display."""
        return shown(self._target.label)

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read all heads from one version of the table."""
        self._log = log = self._open(self._session())
        ledgers = self.stored(log)
        if not ledgers:
            raise SettingsError(
                f"{self.label} has no ledger: its log has no batch of a sink",
                cause="no DeltaSink has written to it yet, it was dropped and recreated, or it "
                "is the wrong table",
                fix="Name the table or path that was passed to DeltaSink",
            )
        return {ledger.key: ledger for ledger in ledgers}

    def stored(self, log: TableLog) -> list[StoredLedger]:
        """Read the ledgers of a table, if it has any. Raises SinkError."""
        states = sorted(log.states().items())
        ledgers = (self._stored(log, query, state) for query, state in states)
        return [ledger for ledger in ledgers if ledger is not None]

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Yield the newest batches of the ledger `key`, up to the first missing commit."""
        log = self._log or self._open(self._session())
        return iter(applied_batches(newest_steps(self._steps(log, key.query), self._batches)))

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:  # noqa: ARG002  # the protocol's
        """Yield the source offset of each row, in the version from which the ledger was read."""
        session = self._session()
        log = self._log or self._open(session)
        reader = session.read.format("delta").option("versionAsOf", log.newest)
        try:
            with asking("read a table"):
                frame = reader.load(log.table.location)
            yield from row_origins(frame, self.label, columns)
        except JvmError as error:
            raise error.as_kind(SinkError, label=self.label) from error

    def close(self) -> None:
        """Forget the table and its log; the caller must stop the Spark session."""
        self._connection.forget()
        self._log = None

    def _stored(self, log: TableLog, query: str, state: QueryState) -> StoredLedger | None:
        """Return the ledger of a query, or None if a rename has given its heads to another name."""
        key = LedgerKey(self._place, query)
        try:
            heads = self._connection.heads(log, query, state)
        except SinkError:
            if self._query in (None, query):
                raise
            return StoredLedger(key=key, heads={}, moved_at={})
        rollback = log.rollback_of(query)
        back = rollback and taken_back(self._connection.reference, rollback, log.newest)
        if not heads and back is None and state.version is not None:
            return None
        at = moved_at(chain(self._newest(log, heads, state), self._steps(log, query)))
        return StoredLedger(key=key, heads=heads, moved_at=at, rollback=back, newest_only=True)

    def _newest(self, log: TableLog, heads: Heads, state: QueryState) -> Iterator[LedgerStep]:
        """Yield the step of the commit with the heads, without the heads before this commit.

        Skip a commit without rows, which may be a repair that left most heads unchanged.
        """
        commit = None if state.version is None else log.commit(state.version)
        if commit is not None and commit.rows != 0:
            yield LedgerStep(heads, None, None, commit.at)

    def _steps(self, log: TableLog, query: str) -> Iterator[LedgerStep]:
        """Yield the query's steps from newest to oldest; each record names the previous commit."""
        state: QueryState | None = log.states().get(query)
        while state is not None and state.version is not None and state.doubt is None:
            commit = log.commit(state.version)
            if commit is None or commit.record is None:
                return
            record = commit.record
            heads, is_renamed = record.ledger_of(query).heads, query != record.query
            query = record.query
            state = record.states.get(query)
            if is_renamed:
                yield LedgerStep(heads, heads, 0, commit.at, f"renamed from query {query}")
            else:
                yield LedgerStep(heads, self._before(log, query, state), commit.rows, commit.at)

    def _before(self, log: TableLog, query: str, state: QueryState | None) -> Heads | None:
        if state is None or (state.doubt is None and state.version is None):
            return {}
        commit = None if state.version is None else log.commit(state.version)
        if commit is None or commit.record is None:
            return None
        return commit.record.ledger_of(query).heads

    def _open(self, session: SparkSession) -> TableLog:
        try:
            log = self._connection.log(session)
        except RetriableSinkError as error:
            if any(name in str(error.cause) for name in _REFUSALS):
                raise error.as_kind(
                    SinkError, fix="Allow the user of this command to read the table"
                ) from error
            raise error.as_kind(
                RetriableSinkError,
                fix="If Spark lacks a setting or a jar for the file system or catalog, pass "
                "those of the query: --spark-conf KEY=VALUE, or spark-defaults.conf",
            ) from error
        if log is None:
            by_name = self._target.table is not None
            raise SettingsError(
                f"{self.label} does not exist",
                cause="no catalog of this Spark session has it"
                if by_name
                else "it is in another place, or this user may not read its folder",
                fix="Name it by its path, delta:/PATH, or pass the catalog's settings: "
                "--spark-conf KEY=VALUE, or spark-defaults.conf"
                if by_name
                else "Name the path that was passed to DeltaSink",
            )
        return log
