"""Connections that a Python worker of Spark keeps from one task to the next.

A worker runs one task after another, and Spark ends one that has had nothing to do for a minute.
A connection is only given out by the process that has opened it, since a worker is forked from
another, and for the same conninfo: one for another password is another one.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from eo_listener.sinks.postgres.connection import answers

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter

IDLE: Final = 10.0
"""Seconds after which a connection that no task has asked for is closed."""


class Key(NamedTuple):
    """Whose connection it is; `digest` is that of a conninfo, which is secret."""

    process: int
    digest: str

    @classmethod
    def of(cls, conninfo: str) -> Key:
        """For this process."""
        return cls(os.getpid(), hashlib.sha256(conninfo.encode()).hexdigest())


class _Kept(NamedTuple):
    link: Connection
    closing: threading.Timer


_kept: dict[Key, _Kept] = {}


def borrowed(writer: TransactionWriter) -> AbstractContextManager[Connection]:
    """Return the connection that was kept for `writer`, or a new one; it is kept afterwards.

    Raises SinkError.
    """
    conninfo = writer.conninfo
    # A function gives a dsn for each connection; and with a bound to them none may be left over,
    # since the next task may have another worker.
    if conninfo is None or not writer.keeps:
        return writer.open()
    key = Key.of(conninfo)
    kept = _kept.pop(key, None)  # the thread that pops it owns it: the timer pops it too
    link = None
    if kept is not None:
        kept.closing.cancel()
        link = kept.link if answers(kept.link) else None
    if link is None:
        link = writer.open()
    else:
        writer.attend(link)
    return _lent(key, link)


@contextmanager
def _lent(key: Key, link: Connection) -> Iterator[Connection]:
    try:
        yield link
    except BaseException:
        link.close()
        raise
    _keep(key, link)


def _keep(key: Key, link: Connection) -> None:
    if link.closed or link.info.transaction_status != TransactionStatus.IDLE or key in _kept:
        link.close()
        return
    closing = threading.Timer(IDLE, _close, (key, link))
    closing.daemon = True
    _kept[key] = _Kept(link, closing)
    closing.start()


def _close(key: Key, link: Connection) -> None:
    kept = _kept.get(key)
    if kept is not None and kept.link is link and _kept.pop(key, None) is kept:
        try:
            link.close()
        except psycopg.Error:
            return  # it is gone
