"""The connection that a sink keeps from batch to batch, and the schema that its table lies in."""

from __future__ import annotations

import os
from dataclasses import replace
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.sinks.postgres.catalog import schema_of
from eo_listener.sinks.postgres.connection import connect, usable
from eo_listener.sinks.postgres.errors import lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from eo_listener.sinks.postgres.connection import Connection, Identity
    from eo_listener.sinks.postgres.conninfo import ConnectionSettings
    from eo_listener.sinks.postgres.transaction import TransactionWriter

_Answer = TypeVar("_Answer")

_STILL_THERE: Final = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s AND backend_start = %s
               AND xact_start IS NOT DISTINCT FROM %s)
"""
_END: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = %s AND backend_start = %s AND xact_start IS NOT DISTINCT FROM %s
"""


class KeptConnection:
    """The connection of one sink. `access` has its settings, and schema and place once found.

    `link` is the connection, for the batches of `query`. It is neither pickled nor copied, and a
    forked process leaves its parent's alone.
    """

    link: Connection | None = None  # also where `__init__` was not called: unpickling failed
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
        """Return the connection settings with the table's schema, which is looked up once.

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
                    fix="Name one: schema=...",
                )
            self.access = replace(self.access, schema=schema)
        return self.access

    def connection(self, writer: TransactionWriter) -> Connection:
        """Return the kept connection, or a new one if that is another query's, or was lost."""
        link = self.link
        known = self._owner == os.getpid() and self.query == writer.query
        if link is None or not known or not usable(link):
            self.close()
            link = self.link = writer.open()
            self._owner = os.getpid()
            self.query = writer.query
            self._note_place(link)
        return link

    def _note_place(self, link: Connection) -> None:
        """Keep where a function's dsn has led first, so that the sink is not taken for another.

        Later ones may lead elsewhere, as after a failover: what goes by the label goes on by it.
        """
        if not isinstance(self.access.dsn, str) and self.access.led_to is None:
            self.access = replace(self.access, led_to=link.place)

    def ask(self, writer: TransactionWriter, question: Callable[[Connection], _Answer]) -> _Answer:
        """Ask on the kept connection, and on a new one if that turns out to have ended meanwhile.

        A firewall, a pooler or the server ends connections that are idle between two batches.
        """
        kept = self.link
        link = self.connection(writer)
        try:
            return question(link)
        except psycopg.Error as error:
            if link is not kept or not lost(error):
                raise
        self.close()
        return question(self.connection(writer))

    def remember_unknown_commit(self) -> None:
        """Note that the COMMIT of the kept connection, if it is closed, was not answered."""
        link = self.link  # read once: another thread may close the sink
        if link is not None:
            self._unknown_commit = link.identity if link.closed else None

    def resolve_unknown_commit(self, link: Connection, label: str) -> None:
        """Wait until the backend whose COMMIT was not answered is gone; end it if it stays."""
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
                    cause="the server, or a standby that it waits for, hangs or is overloaded",
                    fix="Query pg_stat_activity; start the query again when it has ended",
                )
            if waited > timeout:
                link.execute(_END, self._unknown_commit)
            sleep(0.05)
