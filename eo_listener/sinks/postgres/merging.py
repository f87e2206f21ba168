"""From the rows of a batch that lie in a table of their own into the target: all in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from eo_listener.errors import SettingsError, SinkError
from eo_listener.sinks.poison import ORIGIN, DeadLetter
from eo_listener.sinks.postgres.failures import REFUSED, reason, said
from eo_listener.sinks.postgres.layout import Layout, listed
from eo_listener.sinks.target import Mode, Target

if TYPE_CHECKING:
    from eo_listener.ledger import Entry
    from eo_listener.sinks.postgres.connection import Link

NUMBER: Final = "eo_number"
_ENDS: Final = ("COMMIT", "END", "ROLLBACK", "ABORT", "BEGIN", "START", "PREPARE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Moves rows from `staged` into `target`; `which` limits `staged` to the rows that count."""

    link: Link
    layout: Layout
    mode: Mode
    keys: tuple[str, ...]
    staged: sql.Identifier
    target: sql.Identifier
    which: sql.Composable

    def run(self, put_aside: Callable[[list[DeadLetter]], None]) -> int:
        """Return how many rows of the target were written; `put_aside` takes what it refuses."""
        if self.mode is not Mode.APPEND:
            self._one_a_key()
        try:
            with self.link.transaction():
                return self.link.execute(self._insert()).rowcount
        except REFUSED:
            first, last = self._numbered()
        return self._moved(first, last, put_aside)

    def _numbered(self) -> tuple[int, int]:
        """Give each staged row a number, by which the refused ones are looked for."""
        number = sql.Identifier(NUMBER)
        add = "ALTER TABLE {} ADD COLUMN {} bigint GENERATED ALWAYS AS IDENTITY"
        self.link.execute(sql.SQL(add).format(self.staged, number))
        ask = sql.SQL("SELECT min({0}), max({0}) FROM {1}").format(number, self.staged)
        row = self.link.execute(ask).fetchone() or (1, 0)
        return int(row[0]), int(row[1])

    def _moved(self, first: int, last: int, put_aside: Callable[[list[DeadLetter]], None]) -> int:
        try:
            with self.link.transaction():
                between = sql.SQL("{} BETWEEN {} AND {}").format(
                    sql.Identifier(NUMBER), sql.Literal(first), sql.Literal(last)
                )
                return self.link.execute(self._insert(between)).rowcount
        except REFUSED as error:
            if first == last:
                put_aside([self._letter(first, reason(error))])
                return 0
        middle = (first + last) // 2
        return self._moved(first, middle, put_aside) + self._moved(middle + 1, last, put_aside)

    def _insert(self, between: sql.Composable | None = None) -> sql.Composed:
        columns = listed(self.layout.written)
        which = self.which if between is None else sql.SQL("{} AND {}").format(self.which, between)
        text = "INSERT INTO {} ({}) SELECT {} FROM {} WHERE {}"
        insert = sql.SQL(text).format(self.target, columns, columns, self.staged, which)
        return insert if self.mode is Mode.APPEND else insert + self._on_conflict()

    def _on_conflict(self) -> sql.Composed:
        others = [name for name in self.layout.written if name not in self.keys]
        head = sql.SQL(" ON CONFLICT ({}) DO ").format(listed(self.keys))
        if not others:
            return head + sql.SQL("NOTHING")
        each = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
        return head + sql.SQL("UPDATE SET ") + sql.SQL(", ").join(each)

    def _one_a_key(self) -> None:
        """Of rows with one key keep the newest; raise SettingsError where it cannot be told."""
        keys = listed(self.keys)
        if not self.layout.traced:
            twice = sql.SQL("SELECT 1 FROM {} WHERE {} GROUP BY {} HAVING count(*) > 1 LIMIT 1")
            if self.link.execute(twice.format(self.staged, self.which, keys)).fetchone():
                raise SettingsError(
                    f"a batch has several rows with the same {', '.join(self.keys)}",
                    cause="which of them is the newest cannot be told",
                    fix="Keep topic, partition and offset in the rows (the greatest offset wins), "
                    "or leave one row a key in the transform",
                )
            return
        topic, partition, offset = map(sql.Identifier, ORIGIN)
        newest = sql.SQL("{} DESC, {} DESC, {} DESC").format(offset, partition, topic)
        text = (
            "DELETE FROM {0} s USING (SELECT ctid AS eo_row, row_number() OVER "
            "(PARTITION BY {1} ORDER BY {2}) AS eo_place FROM {0} WHERE {3}) p "
            "WHERE s.ctid = p.eo_row AND p.eo_place > 1"
        )
        self.link.execute(sql.SQL(text).format(self.staged, keys, newest, self.which))

    def _letter(self, number: int, why: str) -> DeadLetter:
        origin = sql.SQL("{}::text, {}::int, {}::bigint").format(*map(sql.Identifier, ORIGIN))
        unknown = sql.SQL("NULL::text, NULL::int, NULL::bigint")
        ours = sql.Literal([NUMBER, "eo_task", "eo_attempt"])
        text = "SELECT (to_jsonb(s) - {}::text[])::text, {} FROM {} s WHERE {} = {}"
        query = sql.SQL(text).format(
            ours,
            origin if self.layout.traced else unknown,
            self.staged,
            sql.Identifier(NUMBER),
            sql.Literal(number),
        )
        found: tuple[Any, ...] | None = self.link.execute(query).fetchone()
        row, topic, partition, offset = found or ("{}", None, None, None)
        return DeadLetter(topic=topic, partition=partition, offset=offset, reason=why, row=row)


def check_apply(target: Target) -> None:
    """Refuse statements that would end the transaction."""
    for text in statements(target):
        word = text.split(None, 1)[0].rstrip(";").upper() if text.split() else ""
        if word in _ENDS:
            raise SettingsError(
                f"apply= has the statement {word}",
                cause="its statements run in the transaction that moves the ledger",
                fix="Take it out: the transaction is begun and ended for you",
            )


def statements(target: Target) -> tuple[str, ...]:
    """The user's statements, none where apply= is a function."""
    if target.apply is None or callable(target.apply):
        return ()
    return (target.apply,) if isinstance(target.apply, str) else tuple(target.apply)


def apply_users(link: Link, target: Target, entry: Entry, label: str) -> None:
    """Run what the user gave on the rows in `eo_batch`, in the transaction that is open.

    Raises SinkError where a statement is refused, or has ended the transaction.
    """
    before = _transaction(link)
    if callable(target.apply):
        link.sealed = True
        try:
            target.apply(link, entry)
        finally:
            link.sealed = False
    for number, text in enumerate(statements(target), 1):
        try:
            # The extended protocol takes one statement at a time: no COMMIT can hide in a text.
            link.execute(text.encode(), binary=True)
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(
                ("40", "55", "57", "08")
            ) or error.sqlstate is None:
                raise
            raise SinkError(
                f"{label}: statement {number} of apply= was refused: {said(error)}",
                fix="Nothing was written. Mend it; the rows of the batch are in eo_batch",
            ) from error
    if _transaction(link) != before:
        raise SinkError(
            f"{label}: apply= has ended the transaction, so the ledger was not moved",
            cause="what it wrote may stay, and will be written again",
            fix="Take COMMIT and ROLLBACK out of it",
        )


def _transaction(link: Link) -> Any:
    if link.info.transaction_status != TransactionStatus.INTRANS:
        return None
    row = link.execute("SELECT txid_current()").fetchone()
    return row[0] if row else None
