"""Handles rows that cannot be written: writes them as dead letters, or raises an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from eo_listener.sinks.dead_letters import DeadLetter, DeadLetterSql, RefusalReason
from eo_listener.sinks.ledger_sql import Statement
from eo_listener.sinks.postgres.catalog import making, oid, qualified_name, run, run_many
from eo_listener.sinks.postgres.errors import reason
from eo_listener.sinks.postgres.ledger import MOMENT, PLACE
from eo_listener.sinks.target import not_created, refuse_dotted

if TYPE_CHECKING:
    import psycopg

    from eo_listener.model.ledger import Entry
    from eo_listener.sinks.dead_letters import Refusals
    from eo_listener.sinks.postgres.connection import Connection


@dataclass(kw_only=True)
class DeadLetters:
    """Writes dead letters on `link`, in the transaction that is open there.

    `table` is None if the user has named no table. With `staged`, `table` is a staging table, from
    which the sink later moves the letters into the user's table.
    """

    link: Connection
    label: str
    schema: str | None
    table: str | None
    entry: Entry
    refusals: Refusals
    staged: bool = False

    @property
    def count(self) -> int:
        """The number of dead letters."""
        return self.refusals.count

    def why(self, error: psycopg.Error) -> RefusalReason:
        """Return why a row was refused, as two texts: with the row's values, and without them.

        If there is no table of dead letters, neither text has values.
        """
        redacted = reason(error, values=False)
        return RefusalReason(redacted if self.table is None else reason(error), redacted)

    def put(self, letters: list[DeadLetter]) -> None:
        """Write `letters`.

        Raises PoisonRowError for the first letter if the user has named no table for dead letters,
        or if the transaction has more letters than the limit allows.
        """
        if self.table is None:
            raise letters[0].error(self.label)
        self.refusals.add(letters)
        statements = statements_on(self.link, self.schema, self.table, staged=self.staged)
        run_many(self.link, statements.insert(self.entry, letters, datetime.now(timezone.utc)))


def statements_on(
    link: Connection, schema: str | None, table: str, *, staged: bool = False
) -> DeadLetterSql:
    """Return the statements for the dead-letter table `table`."""
    name = qualified_name(link, schema, table)
    return DeadLetterSql(table=name, placeholder=PLACE, moment=MOMENT, redacted=staged)


def make(link: Connection, schema: str | None, table: str, *, create: bool) -> None:
    """Create the dead-letter table if it is missing; if `create` is False, raise SettingsError."""
    if oid(link, schema, table) is not None:
        return
    refuse_dotted("dead_letters", table, has_schemas=True)
    statement = statements_on(link, schema, table).create()
    if not create:
        creation = statement.replace("%%", "%")
        raise not_created(f"table {table!r} for dead letters does not exist", creation)
    with making(link):
        run(link, Statement(statement))
