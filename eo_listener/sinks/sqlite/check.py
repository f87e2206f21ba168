"""Checks the file, table and ledger of a SqliteSink before its first batch. Changes nothing."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from eo_listener.model.check_finding import Findings, fine
from eo_listener.sinks.ledger_sql import HEADS
from eo_listener.sinks.sqlite.catalog import columns_of
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.sinks.table_checks import judge_absent, judge_ledgers, judge_storage

if TYPE_CHECKING:
    from eo_listener.sinks.sqlite.connection import DatabaseFile
    from eo_listener.sinks.target import Target


def findings(file: DatabaseFile, target: Target, key: str, query: str | None) -> Findings:
    """Yield the findings; `query` is the query's name, if it is known.

    Raises EoListenerError if the sink would refuse the file, or the file cannot be read.
    """
    about = f"file {file.path}"
    is_new = file.check_path()
    yield judge_storage(about, file.path.parent.as_uri())
    if is_new:
        yield fine(about, "it does not exist: the first batch creates it")
        return
    yield judge_storage(about, file.path.as_uri())
    with closing(SqliteLedgerReader(file.path, busy_timeout=file.busy_timeout)) as reader:
        with reader.translated():
            connection = reader.connection()
            tables = [] if target.apply else [target.table]
            tables += [] if target.dead_letters is None else [target.dead_letters]
            for name in tables:
                if columns_of(connection, name):
                    yield fine(f"table {name}", "it exists")
                else:
                    yield judge_absent(f"table {name}", "SqliteSink", create=target.create)
            has_ledger = bool(columns_of(connection, HEADS))
        stored = reader.ledgers() if has_ledger or not target.create else {}
        own = [ledger for place, ledger in stored.items() if place.sink == key]
        yield from judge_ledgers(about, query, own)
