"""Rows that cannot be written: put into their table, or the first of them named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from eo_listener.errors import SettingsError
from eo_listener.sinks.ledger_sql import Statement
from eo_listener.sinks.poison import DeadLetter, DeadLetterSql
from eo_listener.sinks.postgres.failures import reason
from eo_listener.sinks.postgres.ledger import MOMENT, PLACE
from eo_listener.sinks.postgres.statements import making, oid, run, run_many, spelt

if TYPE_CHECKING:
    import psycopg

    from eo_listener.ledger import Entry
    from eo_listener.sinks.postgres.connection import Link


@dataclass(kw_only=True)
class DeadLetters:
    """Puts rows aside on `link`, in the transaction that it is in; `count` is how many.

    `table` is None where the user has named none.
    """

    link: Link
    label: str
    schema: str | None
    table: str | None
    entry: Entry
    count: int = 0

    def told(self, error: psycopg.Error) -> str:
        """Return why a row was refused: with its values into the table, without into an error."""
        return reason(error, values=self.table is not None)

    def put(self, letters: list[DeadLetter]) -> None:
        """Write them; raises PoisonRowError for the first where there is no table for them."""
        if self.table is None:
            raise letters[0].error(self.label)
        statements = statements_on(self.link, self.schema, self.table)
        run_many(self.link, statements.insert(self.entry, letters, datetime.now(timezone.utc)))
        self.count += len(letters)


def statements_on(link: Link, schema: str | None, table: str) -> DeadLetterSql:
    """Return the statements on a table of dead letters."""
    return DeadLetterSql(table=spelt(link, schema, table), placeholder=PLACE, moment=MOMENT)


def make(link: Link, schema: str | None, table: str, *, create: bool) -> None:
    """Make the table where it is missing; without `create` raise SettingsError instead."""
    if oid(link, schema, table) is not None:
        return
    statement = statements_on(link, schema, table).create()
    if not create:
        raise SettingsError(
            f"there is no table {table!r} for dead letters, and create=False forbids creating it",
            fix=f"As a role that may create it: {statement.replace('%%', '%')};",
        )
    with making(link):
        run(link, Statement(statement))
