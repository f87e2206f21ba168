"""Who holds the lock that we wait for, and whether it is ours to end.

A process that is stopped (SIGSTOP, a suspended machine) keeps its locks, and no time-out of the
server frees them: it waits for a client that says nothing. Ending the backend does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from eo_listener.errors import SinkBusyError
from eo_listener.sinks.postgres.statements import identifier

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Link

_BLOCKERS = """
SELECT pid, application_name, COALESCE(host(client_addr), 'a local socket'), usename, state,
       backend_start, wait_event_type IS DISTINCT FROM 'Lock' AS holds,
       EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.granted
               AND l.relation = to_regclass(%s)) AS ledger
FROM pg_stat_activity a WHERE pid = ANY (pg_blocking_pids(%s))
"""
_END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_start = %s AND application_name = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What is done when a wait for a lock has taken long enough.

    A connection by the same name, thus of the same sink and query, that holds the ledger and waits
    for no lock itself is a zombie or a second driver: it is ended, and its transaction with it. Of
    anybody else only the name is told. `open_second` opens the connection that does this.
    """

    label: str
    application: str
    schema: str | None
    ledger: str
    waited: float
    open_second: Callable[[], Link]

    def look(self, waiting: int, *, may_end: bool) -> None:
        """End what blocks the backend `waiting`, or raise SinkBusyError that names it.

        Without `may_end` a connection of our own is left alone: it may be another task's.
        """
        with self.open_second() as second:
            table = identifier(self.schema, self.ledger).as_string(second)
            for found in second.execute(_BLOCKERS, (table, waiting)).fetchall():
                self._judge(second, found, may_end=may_end)

    def _judge(self, second: Link, found: tuple[object, ...], *, may_end: bool) -> None:
        pid, application, address, user, state, since, holds, ledger = found
        if application != self.application or not ledger:
            raise SinkBusyError(
                f"{self.label} is locked: backend {pid} ({application or 'no application name'}, "
                f"user {user}, from {address}, {state}) has held a lock that this batch needs for "
                f"more than {self.waited:.0f} s",
                cause="it is not a connection of this sink and query, so it is left alone",
                fix=f"Let it end, or end it: SELECT pg_terminate_backend({pid}); or raise "
                "lock_timeout=",
            )
        if not holds or not may_end:
            return  # it waits for the same thing as we do, and does then what we would do
        try:
            second.execute(_END, (pid, since, application))
        except psycopg.errors.InsufficientPrivilege:
            raise SinkBusyError(
                f"{self.label} is locked by another driver of this query: backend {pid} from "
                f"{address}, user {user}",
                cause="it has stopped, or runs beside this one, and this role may not end it",
                fix=f"End it as that user: SELECT pg_terminate_backend({pid}), or use one role",
            ) from None
