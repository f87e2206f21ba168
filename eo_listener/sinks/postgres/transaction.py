"""Runs the transaction of a batch: lock the heads, write the rows, move the heads, COMMIT.

The transaction is the same on the driver and in the tasks of an executor.

A process that is stopped (SIGSTOP, a suspended machine) keeps its locks, and no time-out of the
server frees them: its backend waits for a silent client. So `LockWatch` ends the backend of a rival
that holds the lock for which a batch waits.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from eo_listener.errors import OutcomeUnknownError, SinkError, SinkLockedError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.dead_letters import Refusals
from eo_listener.sinks.ledger_sql import HEADS
from eo_listener.sinks.postgres.catalog import identifier
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.connection import (
    GRACE,
    Connection,
    Cursor,
    Identity,
    connect,
    limit,
)
from eo_listener.sinks.postgres.conninfo import ConnectionSettings, application_name
from eo_listener.sinks.postgres.copy import SAVEPOINTS, Chunk, Copier, RefusedLateError, chunks
from eo_listener.sinks.postgres.dead_letters import DeadLetters
from eo_listener.sinks.postgres.errors import on_standby, translated
from eo_listener.sinks.postgres.ledger import Ledger
from eo_listener.sinks.postgres.merge import Merge
from eo_listener.sinks.postgres.user_sql import apply_users
from eo_listener.sinks.target import STAGED, Mode, Target

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from eo_listener.sinks.postgres.connection import Connection

logger = logging.getLogger("eo_listener")

_STAGE: Final = sql.Identifier("pg_temp", STAGED)

_BEGIN: Final = """
SELECT pid, backend_start, xact_start,
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true),
       set_config('statement_timeout', %s, true),
       set_config('lock_timeout', %s, true),
       set_config('idle_in_transaction_session_timeout', '0', true)
FROM pg_stat_activity WHERE pid = pg_backend_pid()
"""
"""Sets the time limits of a transaction, and makes its COMMIT durable.

With these settings, a COMMIT that the server has confirmed is on disk: if rows are lost later,
their ledger is lost with them. And the session may idle: Spark may compute for a long time between
two chunks.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a batch, in the types that `layout` describes.

    Each call of `fetch` fetches all rows to the driver again.
    """

    frame: DataFrame
    layout: ColumnLayout
    fetch: Callable[[], Generator[pa.RecordBatch, None, None]]


@dataclass(kw_only=True)
class WriteCounts:
    """The counts of one transaction: `rows` written, and the `total` rows of the batch."""

    dead_letters: DeadLetters
    rows: int = 0
    total: int = 0

    def applied(self) -> Applied:
        """Return the counts as the result of `Sink.apply`."""
        return Applied(rows=self.rows, dead_letters=self.dead_letters.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionWriter:
    """Writes the batches of one sink and query; Spark can send it to executors.

    It holds no connection.

    `alone` is True if this sink and query have no other transaction at the same time. `savepoints`
    is how many savepoints a transaction may have, or None for any number. With `keeps`, a task
    leaves its connection open for the next task.
    """

    access: ConnectionSettings
    ledger: Ledger
    target: Target
    query: str
    alone: bool
    savepoints: int | None = SAVEPOINTS
    keeps: bool = True

    @property
    def label(self) -> str:
        """The sink, for display."""
        return self.ledger.label

    @property
    def direct(self) -> bool:
        """True if COPY may write lines straight into the target."""
        return self.target.mode is Mode.APPEND and self.target.apply is None

    @property
    def table(self) -> sql.Identifier:
        """The target table with its schema."""
        return identifier(self.access.schema, self.target.table)

    @property
    def conninfo(self) -> str | None:
        """The conninfo that `open` uses (secret), or None if it may differ for each connection."""
        if not isinstance(self.access.dsn, str):
            return None
        return self.access.conninfo(self.application)

    @property
    def application(self) -> str:
        """The application_name of all connections of this sink and query."""
        return application_name(self.ledger.key, self.query)

    def open(self) -> Connection:
        """Open a connection with a lock watch."""
        link = connect(self.access, self.label, self.application)
        self.attend(link)
        return link

    def attend(self, link: Connection) -> None:
        """Give a connection the time limits and the lock watch of this writer."""
        application = self.application
        limit(link, self.access)
        watch = LockWatch(
            label=self.label,
            application=application,
            schema=self.access.schema,
            waited=self.access.lock_timeout,
            open_second=lambda: connect(self.access, self.label, "eo_listener lock watch"),
        )
        link.on_stall = lambda: watch.check(link.backend, may_end=link.may_end and not link.shared)

    def write(self, link: Connection, rows: Rows, entry: Entry) -> Applied:
        """Write rows through the driver, and the ledger entry, in one transaction.

        If the server refuses a row in a COPY without savepoint, the method fetches and writes the
        rows again, with a savepoint for each COPY.
        """
        try:
            return self.write_arrow(link, rows.layout, rows.fetch(), entry)
        except RefusedLateError as late:
            logger.warning("%s", late)
            again = replace(self, savepoints=None)
            return again.write_arrow(link, rows.layout, rows.fetch(), entry)

    def write_arrow(
        self,
        link: Connection,
        layout: ColumnLayout,
        batches: Generator[pa.RecordBatch, None, None],
        entry: Entry,
    ) -> Applied:
        """Write rows that can be read only once, and the ledger entry, in one transaction.

        The method waits for the first rows before it begins the transaction.
        """
        with closing(batches):
            gathered = chunks(batches, layout)
            first = next(gathered, None)
            rows = chain([] if first is None else [first], gathered)
            with self.transaction(link, entry) as counts:
                counts.rows = self._rows(link, layout, rows, counts, entry)
        return counts.applied()

    def begin(self, link: Connection, entry: Entry) -> None:
        """Begin a transaction, and lock the heads of `entry` in it.

        Raises ForeignWriterError if the heads differ from those that `entry` expects.
        """
        answer = begin(link, self.access, lambda: self.ledger.hold(link, entry))
        if answer is not None:
            self.ledger.check_held(link, entry, answer)

    @contextmanager
    def transaction(self, link: Connection, entry: Entry) -> Iterator[WriteCounts]:
        """Do everything from BEGIN to COMMIT except the rows, which the caller writes in the block.

        After any error except OutcomeUnknownError, nothing was written.
        """
        counts = WriteCounts(dead_letters=self.dead_letters(link, entry))
        try:
            link.may_end = True
            self.begin(link, entry)
            fault_point("sink.begun")
            link.may_end = self.alone
            yield counts
            link.may_end = True
            counts.dead_letters.refusals.check(counts.total)
            fault_point("sink.rows-written")
            self.ledger.move(link, entry, rows=counts.rows)
            commit(link, self.label, link.limit, sent=lambda: fault_point("sink.commit-sent"))
        except psycopg.Error as error:
            roll_back(link, error)
            raise translated(error, self.label, "writing the batch") from None
        except BaseException:  # any error: the transaction must not stay open
            roll_back(link)
            raise
        fault_point("sink.committed")

    def dead_letters(self, link: Connection, entry: Entry, *, staged: bool = False) -> DeadLetters:
        """Return the object that handles the rows that cannot be written."""
        return DeadLetters(
            link=link,
            label=self.label,
            schema=self.access.schema,
            table=self.target.dead_letters,
            entry=entry,
            refusals=Refusals(label=self.label, limit=self.target.limit),
            staged=staged,
        )

    def merge(
        self,
        link: Connection,
        layout: ColumnLayout,
        staged: sql.Identifier,
        condition: sql.Composable,
    ) -> Merge:
        """Return the object that moves rows from `staged` into the target."""
        return Merge(
            link=link,
            layout=layout,
            target=self.target,
            staged=staged.as_string(link),
            table=self.table.as_string(link),
            condition=condition.as_string(link),
        )

    def _rows(
        self,
        link: Connection,
        layout: ColumnLayout,
        rows: Iterable[Chunk],
        counts: WriteCounts,
        entry: Entry,
    ) -> int:
        if not self.direct:
            shape = layout.shape(None if self.target.apply is not None else self.table)
            text = "CREATE TEMP TABLE {} ON COMMIT DROP AS {} WITH NO DATA"
            link.execute(sql.SQL(text).format(sql.Identifier(STAGED), shape))
        copier = Copier(
            link=link,
            statement=layout.copy(self.table if self.direct else _STAGE).as_bytes(link),
            layout=layout,
            dead_letters=counts.dead_letters,
            savepoints=self.savepoints,
        )
        for chunk in rows:
            copier.take(chunk)
        copier.finish_chunk()
        counts.total = copier.rows + counts.dead_letters.count
        if self.direct:
            return copier.rows
        if self.target.apply is not None:
            apply_users(link, self.target, entry, self.label)
            return copier.rows
        return self.merge(link, layout, _STAGE, sql.SQL("true")).run(counts.dead_letters)


def begin(
    link: Connection, access: ConnectionSettings, first: Callable[[], Cursor] | None = None
) -> Cursor | None:
    """Begin a transaction, and set our time limits, not the role's limits, in one round trip.

    If `first` is given, the function calls it to run a first statement in the transaction, and
    returns the answer to that statement.
    """
    # Our lock watch acts first, and names the holder; the server's limit is a second line of
    # defence.
    limits = (access.statement_timeout, access.lock_timeout + GRACE)
    with link.pipeline():
        link.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        identity = link.execute(_BEGIN, [f"{int(seconds * 1000)}ms" for seconds in limits])
        answer = None if first is None else first()
    row = identity.fetchone()
    if row is not None:
        link.is_now(Identity(*row[:3]))
    return answer


def roll_back(link: Connection, after: psycopg.Error | None = None) -> None:
    """Roll back; if that fails, close the connection, which has the same effect.

    The function also closes the connection if the error `after` shows that its server is a standby:
    the next connection may lead to the primary.
    """
    link.sealed = False
    try:
        if not link.closed:
            link.rollback()
    except psycopg.Error:
        link.close()
    if after is not None and on_standby(after):
        link.close()


def commit(
    link: Connection, label: str, wait: float, *, sent: Callable[[], None] | None = None
) -> None:
    """Send COMMIT, call `sent`, and read the answer within `wait` seconds.

    Raises OutcomeUnknownError if no answer comes, and RetriableSinkError or SinkError if the server
    reports a rollback.
    """
    wire = link.pgconn
    unknown = OutcomeUnknownError(
        f"{label}: the answer to COMMIT was lost, so the batch may or may not have been written",
        cause="the server or the network to it went down",
        fix="Restart the query: a batch that was written is not written twice",
    )
    try:
        wire.send_query(b"COMMIT")
        _until(lambda: wire.flush() == 0, wire, wait, writing=True)
        if sent is not None:
            sent()
        _until(lambda: not wire.is_busy(), wire, wait)
        answer = wire.get_result()
        if answer is not None:
            _until(lambda: not wire.is_busy(), wire, wait)
            wire.get_result()
    except (psycopg.Error, TimeoutError, OSError) as error:
        link.close()
        raise unknown from error
    except BaseException:  # a test's error, or Ctrl-C: the unread answer is in flight
        link.close()
        raise
    if answer is None:
        link.close()
        raise unknown
    if answer.status == ExecStatus.COMMAND_OK and answer.command_status == b"COMMIT":
        return
    refusal = psycopg.errors.error_from_result(answer)
    state = refusal.sqlstate or ""
    if state.startswith(("08", "57", "XX")) or not state:
        # 57: the server is shutting down; a commit that waits for a standby then takes effect
        # nevertheless.
        link.close()
        raise unknown from refusal
    raise translated(refusal, label, "committing") from None


def _until(done: Callable[[], bool], wire: Any, wait: float, *, writing: bool = False) -> None:
    ends = monotonic() + wait
    while not done():
        remaining = ends - monotonic()
        if remaining <= 0:
            raise TimeoutError
        watch = select.poll()  # select() cannot watch a descriptor above 1023
        watch.register(wire.socket, select.POLLIN | (select.POLLOUT if writing else 0))
        watch.poll(min(remaining, 1.0) * 1000)
        wire.consume_input()


_BLOCKERS = """
WITH RECURSIVE ahead (pid) AS (
    SELECT unnest(pg_blocking_pids(%s))
    UNION SELECT unnest(pg_blocking_pids(ahead.pid)) FROM ahead WHERE ahead.pid <> 0
)
SELECT pid, application_name, COALESCE(host(client_addr), 'a local socket'), usename, state,
       backend_start, wait_event_type IS DISTINCT FROM 'Lock' AS holds,
       EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.granted
               AND l.relation = to_regclass(%s)) AS ledger
FROM ahead LEFT JOIN pg_stat_activity a USING (pid)
"""
_PREPARED = """
SELECT gid, owner FROM pg_prepared_xacts WHERE database = current_database()
ORDER BY prepared LIMIT 3
"""
_END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_start = %s AND application_name = %s
"""


class Blocker(NamedTuple):
    """A backend that the batch waits for; `holds` is True if it waits for no lock itself."""

    pid: int
    application: str | None
    address: str
    user: str | None
    state: str | None
    since: datetime | None
    holds: bool
    ledger: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWatch:
    """Ends a rival that holds a lock, or names another holder of the lock, after `waited` seconds.

    A rival is a connection with the same application_name, thus of the same sink and query, that
    holds the ledger and waits for no lock itself: a zombie or a second driver. The watch ends the
    rival's backend, and with it the rival's transaction. If any other session holds the lock, an
    error names it. `open_second` opens the second connection that the watch needs.
    """

    label: str
    application: str
    schema: str | None
    waited: float
    open_second: Callable[[], Connection]

    def check(self, waiting: int, *, may_end: bool) -> None:
        """End the rivals that block the backend `waiting`; raise SinkLockedError for other holders.

        If `may_end` is False, the method ends no rival, since the rival may be another task of this
        query. If no second connection is available, the method does nothing: perhaps the backend
        does not wait for a lock, and if it does, the server's own lock_timeout ends the wait.
        """
        try:
            second = self.open_second()
        except SinkError as error:
            logger.warning(
                "%s: cannot find out which session holds the lock, since a second connection "
                "failed: %s",
                self.label,
                error,
            )
            return
        with second:
            table = identifier(self.schema, HEADS).as_string(second)
            rows = second.execute(_BLOCKERS, (waiting, table)).fetchall()
            # A backend that only waits ahead of ours is not the cause of the wait.
            blockers = [Blocker(*row) for row in rows if row[0]]
            holders = [blocker for blocker in blockers if blocker.holds]
            rivals = [b for b in holders if b.application == self.application and b.ledger]
            for rival in rivals if may_end else ():
                self._end(second, rival)
            for blocker in holders:
                if blocker not in rivals:
                    raise self._locked_by(blocker)
            if len(blockers) < len(rows):  # a prepared transaction has process id 0
                raise self._prepared(second.execute(_PREPARED).fetchall())

    def _end(self, second: Connection, rival: Blocker) -> None:
        try:
            # The server neither shows other roles when a backend started, nor lets them end it.
            if rival.since is not None:
                second.execute(_END, (rival.pid, rival.since, rival.application))
                return
        except psycopg.errors.InsufficientPrivilege:
            pass
        raise SinkLockedError(
            f"{self.label} is locked by another driver of this query: backend {rival.pid} from "
            f"{rival.address}, user {rival.user}",
            cause="it hangs or runs at the same time as this driver, and this role may not end it",
            fix=f"As that user, run SELECT pg_terminate_backend({rival.pid}), or use the same role",
        )

    def _locked_by(self, blocker: Blocker) -> SinkLockedError:
        return SinkLockedError(
            f"{self.label} is locked: backend {blocker.pid} "
            f"({blocker.application or 'no application name'}, user {blocker.user}, from "
            f"{blocker.address}, {blocker.state}) has held a lock that this batch needs for more "
            f"than {self.waited:.0f} s",
            cause="it is not a connection of this sink and query, so the sink does not end it",
            fix=f"Wait for it, run SELECT pg_terminate_backend({blocker.pid}), or raise "
            "lock_timeout=",
        )

    def _prepared(self, transactions: Sequence[tuple[object, ...]]) -> SinkLockedError:
        names = ", ".join(f"{gid!r} of {owner}" for gid, owner in transactions)
        return SinkLockedError(
            f"a prepared transaction that never ended locks {self.label}; the oldest of this "
            f"database: {names}",
            cause="PREPARE TRANSACTION keeps locks until it is ended, even across restarts",
            fix="Find it in pg_locks and pg_prepared_xacts, and run COMMIT PREPARED or "
            "ROLLBACK PREPARED",
        )
