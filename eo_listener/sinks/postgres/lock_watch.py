"""Finds out who holds the lock that a batch waits for, and ends the backend of a rival.

A process that is stopped (SIGSTOP, a suspended machine) keeps its locks, and no time-out of the
server frees them: its backend waits for a silent client. Ending the backend frees them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from eo_listener.errors import SinkError, SinkLockedError
from eo_listener.sinks.ledger_sql import HEADS
from eo_listener.sinks.postgres.catalog import identifier

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Connection

logger = logging.getLogger("eo_listener")

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
            rivals = [blocker for blocker in holders if self._is_rival(blocker)]
            for rival in rivals if may_end else ():
                self._end(second, rival)
            for blocker in holders:
                if blocker not in rivals:
                    raise self._locked_by(blocker)
            if len(blockers) < len(rows):  # a prepared transaction has process id 0
                raise self._prepared(second.execute(_PREPARED).fetchall())

    def _is_rival(self, blocker: Blocker) -> bool:
        return blocker.application == self.application and blocker.ledger

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
