"""From the rows of a batch that lie in a table of their own into the target: all in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from eo_listener.errors import SettingsError
from eo_listener.sinks.poison import ORIGIN, DeadLetter
from eo_listener.sinks.postgres.failures import REFUSED
from eo_listener.sinks.postgres.layout import (
    ALIAS,
    NUMBER,
    PLACE,
    RESERVED,
    TURN,
    Layout,
    listed,
)
from eo_listener.sinks.target import Mode

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Link
    from eo_listener.sinks.postgres.dead_letters import DeadLetters


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

    def run(self, aside: DeadLetters) -> int:
        """Return how many rows of the target were written; `aside` takes what it refuses."""
        try:
            with self.link.transaction():
                if self._upserts:
                    self._one_a_key()
                return self.link.execute(self._insert()).rowcount
        except REFUSED:
            pass  # what follows must not carry it along: it quotes values
        return self._sifted(aside)

    @property
    def _upserts(self) -> bool:
        return self.mode is not Mode.APPEND

    def _sifted(self, aside: DeadLetters) -> int:
        """Write what can be written; where the newest row of a key is refused, the next of it."""
        first, last = self._numbered()
        written, turn = 0, 1
        while True:
            refused: list[int] = []
            written += self._moved((first, last), turn, aside, refused)
            if not refused or not self._upserts:
                return written
            self._call_next(refused, turn + 1)
            turn += 1

    def _numbered(self) -> tuple[int, int]:
        """Give each staged row a number, by which the refused ones are looked for, and its place
        among the rows of its key; the first of a key has the first turn.
        """
        number, turn, place = map(sql.Identifier, (NUMBER, TURN, PLACE))
        add = (
            "ALTER TABLE {} ADD COLUMN {} bigint GENERATED ALWAYS AS IDENTITY, "
            "ADD COLUMN {} bigint DEFAULT 1, ADD COLUMN {} bigint DEFAULT 1"
        )
        self.link.execute(sql.SQL(add).format(self.staged, number, turn, place))
        if self._upserts and self.layout.traced:
            text = (
                "UPDATE {0} SET {1} = r.eo_rank, {2} = CASE r.eo_rank WHEN 1 THEN 1 ELSE 0 END "
                "FROM ({3}) r WHERE {0}.ctid = r.eo_row"
            )
            self.link.execute(sql.SQL(text).format(self.staged, place, turn, self._ranks()))
        ask = sql.SQL("SELECT min({0}), max({0}) FROM {1}").format(number, self.staged)
        row = self.link.execute(ask).fetchone() or (1, 0)
        return int(row[0]), int(row[1])

    def _call_next(self, refused: list[int], turn: int) -> None:
        keys = listed(self.keys)
        text = (
            "UPDATE {0} SET {1} = {2} WHERE {3} AND ({4}, {5}) IN "
            "(SELECT {4}, {5} + 1 FROM {0} WHERE {6} = ANY ({7}))"
        )
        self.link.execute(
            sql.SQL(text).format(
                self.staged,
                sql.Identifier(TURN),
                sql.Literal(turn),
                self.which,
                keys,
                sql.Identifier(PLACE),
                sql.Identifier(NUMBER),
                sql.Literal(refused),
            )
        )

    def _moved(
        self, numbers: tuple[int, int], turn: int, aside: DeadLetters, refused: list[int]
    ) -> int:
        first, last = numbers
        try:
            with self.link.transaction():
                between = sql.SQL("{} BETWEEN {} AND {} AND {} = {}").format(
                    sql.Identifier(NUMBER),
                    sql.Literal(first),
                    sql.Literal(last),
                    sql.Identifier(TURN),
                    sql.Literal(turn),
                )
                return self.link.execute(self._insert(between)).rowcount
        except REFUSED as error:
            why = aside.told(error)
        if first == last:
            refused.append(first)
            aside.put([self._letter(first, why)])
            return 0
        middle = (first + last) // 2
        return self._moved((first, middle), turn, aside, refused) + self._moved(
            (middle + 1, last), turn, aside, refused
        )

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
        """Of rows with one key keep the newest; raise SettingsError where it cannot be told.

        Nulls are equal to nothing, so rows whose key has one are no duplicates.
        """
        keys = listed(self.keys)
        if self.layout.traced:
            text = "DELETE FROM {0} USING ({1}) r WHERE {0}.ctid = r.eo_row AND r.eo_rank > 1"
            self.link.execute(sql.SQL(text).format(self.staged, self._ranks()))
            return
        twice = sql.SQL(
            "SELECT 1 FROM {} WHERE {} AND {} GROUP BY {} HAVING count(*) > 1 LIMIT 1"
        ).format(self.staged, self.which, self._whole(), keys)
        if self.link.execute(twice).fetchone():
            raise SettingsError(
                f"a batch has several rows with the same {', '.join(self.keys)}",
                cause="which of them is the newest cannot be told",
                fix="Keep topic, partition and offset in the rows (the greatest offset wins), "
                "or keep one row for each key in the transform",
            )

    def _whole(self) -> sql.Composed:
        each = [sql.SQL("{} IS NOT NULL").format(sql.Identifier(name)) for name in self.keys]
        return sql.SQL(" AND ").join(each)

    def _ranks(self) -> sql.Composed:
        """A query for the staged rows' ctid, and their place among the rows of their key."""
        topic, partition, offset = map(sql.Identifier, ORIGIN)
        text = (
            "SELECT ctid AS eo_row, CASE WHEN {0} THEN row_number() OVER (PARTITION BY {1} ORDER "
            "BY {2} DESC NULLS LAST, {3} DESC, {4} DESC) ELSE 1 END AS eo_rank FROM {5} WHERE {6}"
        )
        return sql.SQL(text).format(
            self._whole(), listed(self.keys), offset, partition, topic, self.staged, self.which
        )

    def _letter(self, number: int, why: str) -> DeadLetter:
        origin = sql.SQL("{}::text, {}::int, {}::bigint").format(*map(sql.Identifier, ORIGIN))
        unknown = sql.SQL("NULL::text, NULL::int, NULL::bigint")
        ours = sql.Literal(list(RESERVED))
        text = "SELECT (to_jsonb({1}) - {0}::text[])::text, {2} FROM {3} {1} WHERE {4} = {5}"
        query = sql.SQL(text).format(
            ours,
            sql.Identifier(ALIAS),  # a name that a column has too would be the column
            origin if self.layout.traced else unknown,
            self.staged,
            sql.Identifier(NUMBER),
            sql.Literal(number),
        )
        found: tuple[Any, ...] | None = self.link.execute(query).fetchone()
        row, topic, partition, offset = found or ("{}", None, None, None)
        return DeadLetter(topic=topic, partition=partition, offset=offset, reason=why, row=row)
