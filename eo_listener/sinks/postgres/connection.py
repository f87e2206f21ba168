"""A connection on which every wait ends."""

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
"""psycopg reads no other style of dates; Spark may compute for long before the first row. And a
standby is never asked for the ledger: what it says is old.
"""

GRACE: Final = 10.0  # seconds by which the server must have kept its own time limits


class Identity(NamedTuple):
    """One transaction of one backend, as pg_stat_activity shows it; `xact_start` may be hidden."""

    pid: int
    backend_start: datetime
    xact_start: datetime | None


class Connection(psycopg.Connection[Row]):
    """One connection to the server, used by one thread."""

    #: Seconds of one wait after which `on_stall` is called, each time.
    stall_timeout: float = 3600.0
    #: Seconds of one wait after which the connection is closed: a server that is stopped answers
    #: nothing, not even that.
    limit: float = 3600.0
    #: May raise.
    on_stall: Callable[[], None] | None = None
    #: Its present user must not COMMIT or ROLLBACK.
    sealed: bool = False
    #: Another connection of the same sink and query that blocks this one is a rival.
    may_end: bool = True
    #: The identity of the last transaction: behind a pooler libpq knows another process.
    identity: Identity | None = None
    #: The next transaction may have another backend, so a connection by our name need not be ours.
    shared: bool = False
    #: Its address, for display.
    place: str = ""

    def is_now(self, identity: Identity) -> None:
        """Note which backend serves a transaction; warn once if it is not always the same."""
        before, self.identity = self.identity, identity
        if self.shared or before is None or identity[:2] == before[:2]:
            return
        self.shared = True
        logger.warning(
            "The PostgreSQL connection gets a backend for each transaction: a pooler such as "
            "PgBouncer runs in transaction mode. Batches are still written exactly once, but a "
            "successor does not end the transaction of a stopped driver; it names the "
            "transaction instead. Use session mode, or connect to the server directly"
        )

    @property
    def backend(self) -> int:
        """The process that serves this connection's transactions."""
        return self.info.backend_pid if self.identity is None else self.identity.pid

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Wait for the server, as psycopg does, but not forever."""
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
            self.close()  # in the middle of a statement, so it is no longer of use
            raise

    def commit(self) -> None:
        """As psycopg's, but refused to the user's function: COMMIT comes after the ledger."""
        self._refuse_when_sealed("commit")
        super().commit()

    def rollback(self) -> None:
        """As psycopg's, but refused to the user's function."""
        self._refuse_when_sealed("rollback")
        super().rollback()

    def _refuse_when_sealed(self, method: str) -> None:
        if self.sealed:
            raise SinkError(
                f"the function of apply= called {method}(): nothing was written",
                cause="the transaction must stay open until the sink moves the ledger in it",
                fix=f"Remove {method}() from it; to give up the batch, raise an error",
            )


def connect(access: ConnectionSettings, label: str, application: str) -> Connection:
    """Open a connection in autocommit; transactions are begun by `transaction.begin`.

    Raises SinkError, which holds no secret; RetriableSinkError where the server may be away only
    for a while.
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
        # Not chained: the original may quote what it was given.
        raise unreachable(label, access.without_secrets(message_of(error))) from None
    except UnicodeError:  # from the name of the host, which psycopg looks up
        raise bad_host(label) from None
    if row is None or row[0]:
        link.close()
        raise standby(label)
    link.identity = Identity(row[1], row[2], None)
    link.place = access.place()
    return link


def limit(link: Connection, access: ConnectionSettings) -> None:
    """Have a connection wait as long as `access` says."""
    link.limit = access.statement_timeout + access.lock_timeout + GRACE
    link.stall_timeout = access.lock_timeout


def usable(link: Connection | None) -> bool:
    """Return True if a kept connection may be used; whether it still answers shows when it is."""
    return (
        link is not None
        and not link.closed
        and link.info.transaction_status == TransactionStatus.IDLE
    )


def answers(link: Connection | None) -> bool:
    """Ask whether a kept connection still answers."""
    if link is None or not usable(link):
        return False
    try:
        link.execute("SELECT 1")
    except psycopg.Error:
        link.close()  # it was idle, so nothing is lost with it
        return False
    return True
