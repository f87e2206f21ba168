"""A PostgreSQL connection on which every wait has a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from eo_listener.errors import SinkError
from eo_listener.sinks.postgres.conninfo import ConnectionSettings
from eo_listener.sinks.postgres.errors import bad_host, message_of, standby, unreachable

if TYPE_CHECKING:
    from psycopg.abc import RV, PQGen

logger = logging.getLogger("eo_listener")

Row: TypeAlias = tuple[Any, ...]
Cursor: TypeAlias = psycopg.Cursor[Row]

_SESSION: Final = """
SELECT pg_is_in_recovery(), pid, backend_start,
       (SELECT count(set_config(name, CASE name WHEN 'DateStyle' THEN 'ISO' ELSE '0' END, false))
        FROM pg_settings WHERE name IN ('DateStyle', 'idle_session_timeout'))
FROM pg_stat_activity WHERE pid = pg_backend_pid()
"""
"""Prepares a session, and asks if the server is a standby.

Psycopg reads dates only in the ISO style, and Spark may compute for a long time before the first
row. The ledger of a standby may be out of date, so the sink does not read it.
"""

GRACE: Final = 10.0  # seconds of tolerance beyond a time limit


class Identity(NamedTuple):
    """A backend and its transaction, as in pg_stat_activity; `xact_start` may be unknown."""

    pid: int
    backend_start: datetime
    xact_start: datetime | None


class Connection(psycopg.Connection[Row]):
    """One connection to the server, used by one thread."""

    #: A wait calls `on_stall` each time that this many seconds have passed.
    stall_timeout: float = 3600.0
    #: A wait of more than this many seconds closes the connection: a stopped server does not even
    #: report its own time-outs.
    limit: float = 3600.0
    #: Called during a long wait; may raise an error.
    on_stall: Callable[[], None] | None = None
    #: True while the user's function, which must not COMMIT or ROLLBACK, has the connection.
    sealed: bool = False
    #: True if a connection of the same sink and query that blocks this one counts as a rival.
    may_end: bool = True
    #: The identity of the last transaction: behind a pooler, libpq reports a different process.
    identity: Identity | None = None
    #: True if the next transaction may have a different backend, so that a connection with our
    #: application name need not be ours.
    shared: bool = False
    #: The address of the database, for display.
    place: str = ""

    def is_now(self, identity: Identity) -> None:
        """Note the backend that serves a new transaction; warn once if the backend has changed."""
        before, self.identity = self.identity, identity
        if self.shared or before is None or identity[:2] == before[:2]:
            return
        self.shared = True
        logger.warning(
            "The PostgreSQL connection gets a backend for each transaction: a pooler such as "
            "PgBouncer runs in transaction mode. Batches are still written exactly once, but a "
            "new driver does not end the transaction of a stopped driver; an error names the "
            "transaction instead. Use session mode, or connect to the server directly"
        )

    @property
    def backend(self) -> int:
        """The process id of the backend that serves this connection's transactions."""
        return self.info.backend_pid if self.identity is None else self.identity.pid

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Wait for the server as psycopg does, but at most `limit` seconds."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: PQGen[RV]) -> Generator[Any, Any, RV]:
        begun = monotonic()
        stalled = begun
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready:
                    now = monotonic()
                    if now - begun > self.limit:
                        self.close()
                        raise psycopg.OperationalError(f"no answer for {self.limit:.0f} seconds")
                    if now - stalled > self.stall_timeout:
                        stalled = now
                        self._stall()
                state = gen.send(ready)
        except StopIteration as done:
            result: RV = done.value
            return result

    def _stall(self) -> None:
        if self.on_stall is None:
            return
        try:
            self.on_stall()
        except BaseException:
            self.close()  # in the middle of a statement, so it cannot be used again
            raise

    def commit(self) -> None:
        """Commit; raise SinkError if the user's function calls this before the ledger is moved."""
        self._refuse_when_sealed("commit")
        super().commit()

    def rollback(self) -> None:
        """Roll back; raise SinkError if the user's function calls this."""
        self._refuse_when_sealed("rollback")
        super().rollback()

    def _refuse_when_sealed(self, method: str) -> None:
        if self.sealed:
            raise SinkError(
                f"the function of apply= called {method}(): nothing was written",
                cause="the transaction must stay open until the sink moves the ledger in it",
                fix=f"Remove {method}() from it; to abort the batch, raise an error",
            )


def connect(access: ConnectionSettings, label: str, application: str) -> Connection:
    """Open a connection in autocommit mode, on which `transaction.begin` begins transactions.

    Raises SinkError, which holds no secret; it is a RetriableSinkError if the server may be
    unavailable only for a while.
    """
    link = None
    access = access.now()
    try:
        # A pooler may give the next transaction to a backend that has not prepared a statement.
        link = Connection.connect(
            access.conninfo(application), autocommit=True, prepare_threshold=None
        )
        limit(link, access)
        row = link.execute(_SESSION).fetchone()
    except psycopg.Error as error:
        if link is not None:
            link.close()
        # Not chained: the original error may quote the conninfo.
        raise unreachable(label, access.without_secrets(message_of(error))) from None
    except UnicodeError:  # from the host name, which psycopg looks up
        raise bad_host(label) from None
    if row is None or row[0]:
        link.close()
        raise standby(label)
    link.identity = Identity(row[1], row[2], None)
    link.place = access.place()
    return link


def limit(link: Connection, access: ConnectionSettings) -> None:
    """Set the time limits of a connection to those of `access`."""
    link.limit = access.statement_timeout + access.lock_timeout + GRACE
    link.stall_timeout = access.lock_timeout


def usable(link: Connection | None) -> bool:
    """Return True if a kept connection seems usable; the client may not have noticed its loss."""
    return (
        link is not None
        and not link.closed
        and link.info.transaction_status == TransactionStatus.IDLE
    )


def answers(link: Connection | None) -> bool:
    """Return True if a kept connection still answers; otherwise close it."""
    if link is None or not usable(link):
        return False
    try:
        link.execute("SELECT 1")
    except psycopg.Error:
        link.close()  # it was idle, so nothing is lost with it
        return False
    return True
