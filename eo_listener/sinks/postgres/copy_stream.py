"""A COPY that is sent whole and answered later, so that the server works while lines are made.

psycopg's own `copy` waits for the answer before anything else can be done. The statement must not
stay open instead: its time would run, against statement_timeout, while Spark computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.pq import ExecStatus
from psycopg.waiting import Ready, Wait

from eo_listener.model.fault_points import reached

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult

    from eo_listener.sinks.postgres.connection import Connection

_SLICE: Final = 1 << 20
"""Bytes that libpq takes into its own buffer at once; it would grow to hold them all."""


def send(link: Connection, statement: bytes, data: Iterable[memoryview]) -> None:
    """Send a COPY FROM STDIN and all its lines. Nothing else may be asked before `answer`.

    Other statements may stand before and behind it, with semicolons between: they cost no wait.
    """
    wire = link.pgconn
    link.wait(_begun(wire, statement))
    for part in data:
        for at in range(0, len(part), _SLICE):
            link.wait(_lines(wire, part[at : at + _SLICE]))
        reached("sink.copying")
    link.wait(_ended(wire))


def answer(link: Connection) -> int:
    """Wait for the server to have taken them all, and return how many rows it says there were.

    Raises what psycopg raises for a refusal.
    """
    return link.wait(_answer(link.pgconn))


def _begun(wire: PGconn, statement: bytes) -> PQGen[None]:
    wire.send_query(statement)
    yield from _flushed(wire)
    while (result := (yield from _result(wire))) is not None:
        if result.status == ExecStatus.COPY_IN:
            return
        if result.status != ExecStatus.COMMAND_OK:
            break
    yield from _drained(wire)
    raise _error(result)


def _lines(wire: PGconn, data: memoryview) -> PQGen[None]:
    while wire.put_copy_data(data) == 0:
        yield from _flushed(wire)
    yield from _flushed(wire)


def _ended(wire: PGconn) -> PQGen[None]:
    while wire.put_copy_end() == 0:
        yield from _flushed(wire)
    yield from _flushed(wire)


def _answer(wire: PGconn) -> PQGen[int]:
    copied: int | None = None
    refused: PGresult | None = None
    while (result := (yield from _result(wire))) is not None:
        if result.status != ExecStatus.COMMAND_OK:
            refused = refused or result
        elif (result.command_status or b"").startswith(b"COPY"):
            copied = result.command_tuples or 0
    if refused is not None or copied is None:
        raise _error(refused)
    return copied


def _flushed(wire: PGconn) -> PQGen[None]:
    while wire.flush():
        if (yield Wait.RW) & Ready.R:
            wire.consume_input()


def _result(wire: PGconn) -> PQGen[PGresult | None]:
    while wire.is_busy():
        if (yield Wait.R):
            wire.consume_input()
    return wire.get_result()


def _drained(wire: PGconn) -> PQGen[None]:
    while (yield from _result(wire)) is not None:
        pass


def _error(result: PGresult | None) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the server gave no answer to COPY")
    return psycopg.errors.error_from_result(result)
