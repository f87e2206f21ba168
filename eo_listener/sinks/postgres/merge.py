"""From the rows of a batch that lie in a table of their own into the target: all in SQL.

Keys are locked in their order, so that two writers of the same keys wait for each other instead of
deadlocking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from eo_listener.sinks.dead_letters import DeadLetter, Why
from eo_listener.sinks.newest_row import ORIGIN, STAGED_ORIGIN, Newest, tie
from eo_listener.sinks.postgres.columns import (
    ALIAS,
    NUMBER,
    PLACE,
    RESERVED,
    TIED,
    TURN,
    ColumnLayout,
    listed,
)
from eo_listener.sinks.postgres.errors import REFUSED, left_out
from eo_listener.sinks.target import Mode, Target

if TYPE_CHECKING:
    from eo_listener.model.errors import SettingsError
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.dead_letters import DeadLetters


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Moves rows from `staged` into `table`; `which` limits `staged` to the rows that count."""

    link: Connection
    layout: ColumnLayout
    target: Target
    staged: sql.Identifier
    table: sql.Identifier
    which: sql.Composable

    def run(self, dead_letters: DeadLetters) -> int:
        """Return how many rows of the target were written; `dead_letters` takes what it refuses.

        Raises SettingsError where the newest of the rows with one key cannot be determined,
        SinkError where the table left rows out.
        """
        try:
            with self.link.transaction():
                if self._upserts:
                    self._one_a_key()
                written = self.link.execute(self._insert(self.which)).rowcount
        except REFUSED:
            pass  # what follows must not carry it along: it quotes values
        else:
            self._check_taken(written, self.which, dead_letters.label)
            return written
        return self._sifted(dead_letters)

    @property
    def _upserts(self) -> bool:
        return self.target.mode is not Mode.APPEND

    def _sifted(self, dead_letters: DeadLetters) -> int:
        """Write what can be written; where the newest row of a key is refused, the next of it."""
        first, last = self._numbered()
        written, turn = 0, 1
        while True:
            refused: list[int] = []
            written += self._moved((first, last), turn, dead_letters, refused)
            if not self._upserts:
                return written
            if not refused:
                taken = sql.SQL("{} AND {} > 0").format(self.which, sql.Identifier(TURN))
                self._check_taken(written, taken, dead_letters.label)
                return written
            turn += 1
            self._offer_next_of_key(refused, turn)

    def _numbered(self) -> tuple[int, int]:
        """Give each staged row a number, by which the refused ones are searched for, and its place
        among the rows of its key; the first of a key has the first turn.
        """
        number, turn, place, tied = map(sql.Identifier, (NUMBER, TURN, PLACE, TIED))
        add = (
            "ALTER TABLE {} ADD COLUMN {} bigint {}, ADD COLUMN {} bigint DEFAULT 1, "
            "ADD COLUMN {} bigint DEFAULT 1, ADD COLUMN {} boolean DEFAULT false"
        )
        counted = sql.SQL("" if self._upserts else "GENERATED ALWAYS AS IDENTITY")
        self.link.execute(sql.SQL(add).format(self.staged, number, counted, turn, place, tied))
        if self._upserts:
            text = (
                "UPDATE {0} SET {1} = r.eo_at, {2} = r.eo_rank, {3} = r.eo_tie, "
                "{4} = CASE r.eo_rank WHEN 1 THEN 1 ELSE 0 END FROM ({5}) r "
                "WHERE {0}.ctid = r.eo_row"
            )
            at = sql.SQL("row_number() OVER (ORDER BY {}) AS eo_at")
            ranks = self._ranks(also=at.format(listed(self.target.keys)))
            query = sql.SQL(text).format(self.staged, number, place, tied, turn, ranks)
            self.link.execute(query)
        ask = sql.SQL("SELECT min({0}), max({0}) FROM {1} WHERE {2}")
        row = self.link.execute(ask.format(number, self.staged, self.which)).fetchone()
        return (1, 0) if row is None or row[0] is None else (int(row[0]), int(row[1]))

    def _offer_next_of_key(self, refused: list[int], turn: int) -> None:
        """Put the rows after those refused in their place; raise where one of them is tied."""
        text = (
            "UPDATE {0} SET {1} = {2} WHERE {3} AND ({4}, {5}) IN "
            "(SELECT {4}, {5} + 1 FROM {0} WHERE {6} = ANY ({7}))"
        )
        called = sql.SQL(text).format(
            self.staged,
            sql.Identifier(TURN),
            sql.Literal(turn),
            self.which,
            listed(self.target.keys),
            sql.Identifier(PLACE),
            sql.Identifier(NUMBER),
            sql.Literal(refused),
        )
        self.link.execute(called)
        text = "UPDATE {} SET {} = 0 WHERE {} = ANY ({})"  # they are not among the rows taken
        none = sql.SQL(text).format(
            self.staged, sql.Identifier(TURN), sql.Identifier(NUMBER), sql.Literal(refused)
        )
        self.link.execute(none)
        asked = sql.SQL("SELECT {} FROM {} WHERE {} = {} AND {} LIMIT 1").format(
            self._origin(),
            self.staged,
            sql.Identifier(TURN),
            sql.Literal(turn),
            sql.Identifier(TIED),
        )
        self._refuse_tie(asked)

    def _moved(
        self, numbers: tuple[int, int], turn: int, dead_letters: DeadLetters, refused: list[int]
    ) -> int:
        first, last = numbers
        try:
            with self.link.transaction():
                between = sql.SQL("{} AND {} BETWEEN {} AND {} AND {} = {}").format(
                    self.which,
                    sql.Identifier(NUMBER),
                    sql.Literal(first),
                    sql.Literal(last),
                    sql.Identifier(TURN),
                    sql.Literal(turn),
                )
                return self.link.execute(self._insert(between)).rowcount
        except REFUSED as error:
            why = dead_letters.why(error)
        if first == last:
            refused.append(first)
            dead_letters.put([self._letter(first, why)])
            return 0
        middle = (first + last) // 2
        return self._moved((first, middle), turn, dead_letters, refused) + self._moved(
            (middle + 1, last), turn, dead_letters, refused
        )

    def _insert(self, which: sql.Composable) -> sql.Composed:
        columns = listed(self.layout.written)
        text = "INSERT INTO {} AS {} ({}) SELECT {} FROM {} WHERE {}"
        alias = sql.Identifier(ALIAS)
        insert = sql.SQL(text).format(self.table, alias, columns, columns, self.staged, which)
        if not self._upserts:
            return insert
        order = sql.SQL(" ORDER BY {}").format(listed(self.target.keys))
        return insert + order + self._on_conflict()

    def _on_conflict(self) -> sql.Composed:
        others = [name for name in self.layout.written if name not in self.target.keys]
        head = sql.SQL(" ON CONFLICT ({}) DO ").format(listed(self.target.keys))
        if not others:
            return head + sql.SQL("NOTHING")
        each = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
        update = head + sql.SQL("UPDATE SET ") + sql.SQL(", ").join(each)
        if self.target.version_column is None:
            return update
        there, given = sql.Identifier(ALIAS), sql.SQL("EXCLUDED")
        text = " WHERE {0} IS NULL OR {1} > {0} OR ({1} = {0} AND {2})"
        versions = (self._version(there), self._version(given))
        return update + sql.SQL(text).format(*versions, self._replaces_same_version(there, given))

    def _version(self, row: sql.Composable) -> sql.Composed:
        return _of(row, self.target.version_column or "")

    def _replaces_same_version(
        self, there: sql.Composable, given: sql.Composable
    ) -> sql.Composable:
        """Whether a row may replace one of the same version.

        Where the table has the origin, only a later row of the same partition may.
        """
        if not self.layout.located:
            return sql.SQL("true")
        topic, partition, offset = ORIGIN
        text = "({} OR ({} = {} AND {} = {} AND {} >= {}))"
        pairs = [_of(row, name) for name in (topic, partition) for row in (there, given)]
        return sql.SQL(text).format(
            self._unknown(there), *pairs, _of(given, offset), _of(there, offset)
        )

    def _unknown(self, row: sql.Composable) -> sql.Composed:
        """Whether a row lacks its origin."""
        each = [sql.SQL("{} IS NULL").format(_of(row, name)) for name in ORIGIN]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(each))

    def _one_a_key(self) -> None:
        """Of rows with one key keep the newest; raise SettingsError where it cannot be determined.

        Nulls are equal to nothing, so rows whose key has one are not duplicates.
        """
        twice = sql.SQL(
            "SELECT 1 FROM {} WHERE {} AND {} GROUP BY {} HAVING count(*) > 1 LIMIT 1"
        ).format(self.staged, self.which, self._key_without_null(), listed(self.target.keys))
        if self.link.execute(twice).fetchone() is None:
            return
        tied = sql.SQL("SELECT {} FROM ({}) r WHERE eo_rank = 1 AND eo_tie LIMIT 1")
        also = listed(STAGED_ORIGIN) if self.layout.traced else None
        self._refuse_tie(tied.format(self._origin(), self._ranks(also=also)))
        text = "DELETE FROM {0} USING ({1}) r WHERE {0}.ctid = r.eo_row AND r.eo_rank > 1"
        self.link.execute(sql.SQL(text).format(self.staged, self._ranks()))

    def _origin(self) -> sql.Composed:
        """The columns of a staged row that have its origin, or one that does not."""
        return listed(STAGED_ORIGIN) if self.layout.traced else sql.SQL("{}").format(sql.NULL)

    def _refuse_tie(self, asked: sql.Composed, *, there: bool = False) -> None:
        row: tuple[Any, ...] | None = self.link.execute(asked).fetchone()
        if row is not None:
            raise self._tie(row, there=there)

    def _tie(self, row: tuple[Any, ...], *, there: bool) -> SettingsError:
        origin = row if self.layout.traced else None
        return tie(self.target.keys, self.target.version_column, origin, there=there)

    def _key_without_null(self) -> sql.Composed:
        each = [sql.SQL("{} IS NOT NULL").format(sql.Identifier(name)) for name in self.target.keys]
        return sql.SQL(" AND ").join(each)

    def _ranks(self, also: sql.Composable | None = None) -> sql.Composed:
        """A query for the staged rows' ctid, their place among the rows of their key, and whether
        it is tied; `also` are columns to bring.
        """
        version = self.target.version_column
        newest = Newest(
            keys=tuple(self._written(key) for key in self.target.keys),
            version=None if version is None else self._written(version),
            values=(self._values().as_string(self.link),),
            traced=self.layout.traced,
        )
        text = (
            "SELECT ctid AS eo_row, CASE WHEN {0} THEN {1} ELSE 1 END AS eo_rank, {0} AND {2} "
            "AS eo_tie{3} FROM {4} WHERE {5}"
        )
        more = sql.SQL("") if also is None else sql.SQL(", {}").format(also)
        place, tied = sql.SQL(newest.place()), sql.SQL(newest.tied())
        return sql.SQL(text).format(
            self._key_without_null(), place, tied, more, self.staged, self.which
        )

    def _written(self, name: str) -> str:
        return sql.Identifier(name).as_string(self.link)

    def _check_taken(self, written: int, which: sql.Composable, label: str) -> None:
        """Find out why fewer rows were written than were to be.

        Raises SettingsError where one is neither older nor newer than the row in the table,
        SinkError where the table left rows out. Where the table has a row of that key, a trigger
        may skip the update (suppress_redundant_updates_trigger); what it has need not be what was
        given, since a trigger may change values too.
        """
        if not self._upserts or set(self.layout.written) <= set(self.target.keys):
            return
        count = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self.staged, which)
        (wanted,) = self.link.execute(count).fetchone() or (0,)
        if written == wanted:
            return
        there, given = sql.Identifier("eo_there"), sql.Identifier(ALIAS)
        join = sql.SQL("(SELECT * FROM {} WHERE {}) {} LEFT JOIN {} {} ON {}").format(
            self.staged,
            sql.SQL("{} AND {}").format(which, self._key_without_null()),
            given,
            self.table,
            there,
            self._same_key(there, given),
        )
        if self.target.version_column is not None and self.layout.located:
            text = (
                "SELECT {} FROM {} WHERE {} = {} AND NOT {} AND ({} = {} AND {} = {}) IS NOT TRUE "
                "AND {} <> {}"
            )
            pairs = [_of(row, name) for name in ORIGIN[:2] for row in (there, given)]
            tied = sql.SQL(text + " LIMIT 1").format(
                self._origin(),
                join,
                self._version(there),
                self._version(given),
                self._unknown(there),
                *pairs,
                self._values(there),
                self._values(given),
            )
            self._refuse_tie(tied, there=True)
        text = "SELECT count(*) FROM {} WHERE ({}) IS NOT TRUE"
        missing = sql.SQL(text).format(join, self._is_in_table(there, given))
        (lost,) = self.link.execute(missing).fetchone() or (0,)
        if lost:
            raise left_out(label, wanted - lost, wanted)

    def _is_in_table(self, there: sql.Composable, given: sql.Composable) -> sql.Composable:
        """Whether the table has a row of the same key, with a version that is not older."""
        if self.target.version_column is not None:
            versions = (self._version(there), self._version(given))
            return sql.SQL("{} >= {}").format(*versions)
        return sql.SQL("{} IS NOT NULL").format(_of(there, self.target.keys[0]))

    def _same_key(self, there: sql.Composable, given: sql.Composable) -> sql.Composed:
        each = [
            sql.SQL("{} = {}").format(_of(there, name), _of(given, name))
            for name in self.target.keys
        ]
        return sql.SQL(" AND ").join(each)

    def _values(self, row: sql.Composable | None = None) -> sql.Composed:
        """All that a row says, as one text, but for where it came from.

        As a text, since not every type can be compared (json, xml, point).
        """
        names = [one for one in self.layout.written if not (self.layout.traced and one in ORIGIN)]
        each = [sql.Identifier(one) if row is None else _of(row, one) for one in names]
        return sql.SQL('(ROW({})::text COLLATE "C")').format(sql.SQL(", ").join(each))

    def _letter(self, number: int, why: Why) -> DeadLetter:
        origin = listed(STAGED_ORIGIN)
        unknown = sql.SQL("NULL::text, NULL::int, NULL::bigint")
        whole = "jsonb_build_object('topic', {}, 'partition', {}, 'offset', {}) || "
        before = sql.SQL(whole).format(*map(sql.Identifier, STAGED_ORIGIN))
        text = "SELECT ({6}to_jsonb({1}) - {0}::text[])::text, {2} FROM {3} {1} WHERE {4} = {5}"
        query = sql.SQL(text).format(
            sql.Literal(list(RESERVED)),
            sql.Identifier(ALIAS),  # a name that a column has too would be the column
            origin if self.layout.traced else unknown,
            self.staged,
            sql.Identifier(NUMBER),
            sql.Literal(number),
            before if self.layout.traced else sql.SQL(""),
        )
        found: tuple[Any, ...] | None = self.link.execute(query).fetchone()
        row, topic, partition, offset = found or ("{}", None, None, None)
        return DeadLetter(
            topic=topic,
            partition=partition,
            offset=offset,
            reason=why.reason,
            redacted=why.redacted,
            row=row,
        )


def _of(row: sql.Composable, name: str) -> sql.Composed:
    """A column of one of two rows."""
    return sql.SQL("{}.{}").format(row, sql.Identifier(name))
