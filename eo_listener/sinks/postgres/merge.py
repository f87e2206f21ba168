"""Moves the rows of a batch from a staging table into the target, all in SQL.

The statement locks keys in their sort order, so that two writers of the same keys wait for each
other instead of deadlocking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eo_listener.sinks.dead_letters import DeadLetter, RefusalReason
from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.newest_row import ORIGIN, STAGED_ORIGIN, Newest, TwoRows, tie, value_columns
from eo_listener.sinks.postgres.columns import (
    ALIAS,
    NUMBER,
    PLACE,
    RESERVED,
    TIED,
    TURN,
    ColumnLayout,
)
from eo_listener.sinks.postgres.errors import REFUSED, left_out
from eo_listener.sinks.target import Mode, Target

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.dead_letters import DeadLetters

_ORIGIN: Final = ", ".join(STAGED_ORIGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Moves the rows of `staged` that meet `condition` into `table`.

    `staged`, `table` and `condition` are SQL texts.
    """

    link: Connection
    layout: ColumnLayout
    target: Target
    staged: str
    table: str
    condition: str

    def run(self, dead_letters: DeadLetters) -> int:
        """Write the rows, and refused rows into `dead_letters`; return the number of rows written.

        Raises SettingsError if the newest of the rows with the same key cannot be determined, and
        SinkError if the table did not accept some rows.
        """
        try:
            with self.link.transaction():
                if self._upserts:
                    self._keep_newest()
                written = self.link.execute(self._insert(self.condition)).rowcount
        except REFUSED:
            pass  # later errors must not be chained to it: it quotes values
        else:
            self._check_taken(written, self.condition, dead_letters.label)
            return written
        return self._write_accepted(dead_letters)

    @property
    def _upserts(self) -> bool:
        return self.target.mode is not Mode.APPEND

    @property
    def _keys(self) -> str:
        return _listed(self.target.keys)

    def _write_accepted(self, dead_letters: DeadLetters) -> int:
        """Write the rows that the target accepts.

        If the target refuses the newest row of a key, write the next row of that key.
        """
        first, last = self._number_rows()
        written, turn = 0, 1
        while True:
            refused: list[int] = []
            written += self._move((first, last), turn, dead_letters, refused)
            if not self._upserts:
                return written
            if not refused:
                self._check_taken(written, f"{self.condition} AND {TURN} > 0", dead_letters.label)
                return written
            turn += 1
            self._offer_next_of_key(refused, turn)

    def _number_rows(self) -> tuple[int, int]:
        """Number the staged rows, and return the first and the last number.

        The search for refused rows divides the staged rows by their numbers. Each row also gets its
        place among the rows of its key; the first row of each key gets the first turn.
        """
        counted = "" if self._upserts else "GENERATED ALWAYS AS IDENTITY"
        self.link.execute(
            f"ALTER TABLE {self.staged} ADD COLUMN {NUMBER} bigint {counted}, "
            f"ADD COLUMN {TURN} bigint DEFAULT 1, ADD COLUMN {PLACE} bigint DEFAULT 1, "
            f"ADD COLUMN {TIED} boolean DEFAULT false"
        )
        if self._upserts:
            ranks = self._ranks(f"row_number() OVER (ORDER BY {self._keys}) AS eo_at")
            self.link.execute(
                f"UPDATE {self.staged} SET {NUMBER} = r.eo_at, {PLACE} = r.eo_rank, "
                f"{TIED} = r.eo_tie, {TURN} = CASE r.eo_rank WHEN 1 THEN 1 ELSE 0 END "
                f"FROM ({ranks}) r WHERE {self.staged}.ctid = r.eo_row"
            )
        ask = f"SELECT min({NUMBER}), max({NUMBER}) FROM {self.staged} WHERE {self.condition}"
        row = self.link.execute(ask).fetchone()
        return (1, 0) if row is None or row[0] is None else (int(row[0]), int(row[1]))

    def _offer_next_of_key(self, refused: list[int], turn: int) -> None:
        """Give each refused row's turn to the next row of its key; raise SettingsError on a tie."""
        are_refused = f"{NUMBER} = ANY (ARRAY{refused}::bigint[])"
        self.link.execute(
            f"UPDATE {self.staged} SET {TURN} = {turn} WHERE {self.condition} "
            f"AND ({self._keys}, {PLACE}) IN "
            f"(SELECT {self._keys}, {PLACE} + 1 FROM {self.staged} WHERE {are_refused})"
        )
        # The refused rows do not count as taken.
        self.link.execute(f"UPDATE {self.staged} SET {TURN} = 0 WHERE {are_refused}")
        self._refuse_tie(f"{self.staged} WHERE {TURN} = {turn} AND {TIED}")

    def _move(
        self, numbers: tuple[int, int], turn: int, dead_letters: DeadLetters, refused: list[int]
    ) -> int:
        first, last = numbers
        try:
            with self.link.transaction():
                between = f"{NUMBER} BETWEEN {first} AND {last} AND {TURN} = {turn}"
                return self.link.execute(self._insert(f"{self.condition} AND {between}")).rowcount
        except REFUSED as error:
            reason = dead_letters.why(error)
        if first == last:
            refused.append(first)
            dead_letters.put([self._letter(first, reason)])
            return 0
        middle = (first + last) // 2
        return self._move((first, middle), turn, dead_letters, refused) + self._move(
            (middle + 1, last), turn, dead_letters, refused
        )

    def _insert(self, condition: str) -> str:
        columns = _listed(self.layout.written)
        text = f"INSERT INTO {self.table} AS {ALIAS} ({columns}) "
        text += f"SELECT {columns} FROM {self.staged} WHERE {condition}"
        if not self._upserts:
            return text
        text += f" ORDER BY {self._keys} ON CONFLICT ({self._keys}) DO "
        assigned = [quoted(name) for name in self.layout.written if name not in self.target.keys]
        if not assigned:
            return f"{text}NOTHING"
        each = ", ".join(f"{name} = EXCLUDED.{name}" for name in assigned)
        return f"{text}UPDATE SET {each} WHERE {self._two_rows(ALIAS, 'EXCLUDED').newer()}"

    def _two_rows(self, table_alias: str, batch_alias: str) -> TwoRows:
        return TwoRows(
            keys=self.target.keys,
            version=self.target.version_column,
            located=self.layout.located,
            in_table=lambda name: f"{table_alias}.{quoted(name)}",
            in_batch=lambda name: f"{batch_alias}.{quoted(name)}",
        )

    def _keep_newest(self) -> None:
        """Delete all but the newest row of each key; raise SettingsError if no row is the newest.

        A null is equal to nothing, so rows with a null in their key are not duplicates.
        """
        twice = (
            f"SELECT 1 FROM {self.staged} WHERE {self.condition} AND {self._key_without_null()} "
            f"GROUP BY {self._keys} HAVING count(*) > 1 LIMIT 1"
        )
        if self.link.execute(twice).fetchone() is None:
            return
        ranks = self._ranks(*((_ORIGIN,) if self.layout.traced else ()))
        self._refuse_tie(f"({ranks}) r WHERE eo_rank = 1 AND eo_tie")
        self.link.execute(
            f"DELETE FROM {self.staged} USING ({self._ranks()}) r "
            f"WHERE {self.staged}.ctid = r.eo_row AND r.eo_rank > 1"
        )

    def _refuse_tie(self, tied: str, *, in_table: bool = False) -> None:
        """Raise SettingsError if a query with `tied` after its FROM returns a row."""
        traced = self.layout.traced
        asked = f"SELECT {_ORIGIN if traced else 'NULL'} FROM {tied} LIMIT 1"
        row: tuple[Any, ...] | None = self.link.execute(asked).fetchone()
        if row is not None:
            origin = row if traced else None
            raise tie(self.target.keys, self.target.version_column, origin, in_table=in_table)

    def _key_without_null(self) -> str:
        return " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.target.keys)

    def _ranks(self, *also: str) -> str:
        """Return a query for each staged row's ctid, its place in its key, and whether it is tied.

        `also` are further columns of the result.
        """
        version = self.target.version_column
        newest = Newest(
            keys=tuple(map(quoted, self.target.keys)),
            version=None if version is None else quoted(version),
            values=(self._values(""),),
            traced=self.layout.traced,
        )
        complete = self._key_without_null()
        columns = [
            "ctid AS eo_row",
            f"CASE WHEN {complete} THEN {newest.place()} ELSE 1 END AS eo_rank",
            f"{complete} AND {newest.tied()} AS eo_tie",
            *also,
        ]
        return f"SELECT {', '.join(columns)} FROM {self.staged} WHERE {self.condition}"

    def _check_taken(self, written: int, condition: str, label: str) -> None:
        """If the target wrote fewer rows than it got, find out why.

        Raises SettingsError if a row is neither older nor newer than the table's row of its key,
        and SinkError if the table did not accept a row. It is not an error if the table already has
        a row of that key that is not older: a trigger may skip the update
        (suppress_redundant_updates_trigger). The values of the table's row may differ from those of
        the batch's row, since a trigger may change values too.
        """
        if not self._upserts or set(self.layout.written) <= set(self.target.keys):
            return
        count = f"SELECT count(*) FROM {self.staged} WHERE {condition}"
        (wanted,) = self.link.execute(count).fetchone() or (0,)
        if written == wanted:
            return
        version = self.target.version_column
        rows = self._two_rows("eo_there", ALIAS)
        join = (
            f"(SELECT * FROM {self.staged} WHERE {condition} AND {self._key_without_null()}) "
            f"{ALIAS} LEFT JOIN {self.table} eo_there ON {rows.same_key()}"
        )
        if version is not None and self.layout.located:
            self._refuse_tie(
                f"{join} WHERE {rows.same_version()} AND NOT {rows.unknown()} "
                f"AND ({rows.same_partition()}) IS NOT TRUE "
                f"AND {self._values('eo_there.')} <> {self._values(f'{ALIAS}.')}",
                in_table=True,
            )
        # True if the table has a row of the same key, with a version that is not older.
        is_there = f"{rows.in_table(self.target.keys[0])} IS NOT NULL"
        if version is not None:
            is_there = f"{rows.in_table(version)} >= {rows.in_batch(version)}"
        missing = f"SELECT count(*) FROM {join} WHERE ({is_there}) IS NOT TRUE"
        (lost,) = self.link.execute(missing).fetchone() or (0,)
        if lost:
            raise left_out(label, wanted - lost, wanted)

    def _values(self, row: str) -> str:
        """Return SQL for all values of a row except topic, partition and offset, as one text.

        The result is a text, since some types cannot be compared (json, xml, point).
        """
        each = [
            row + quoted(name)
            for name in value_columns(self.layout.written, traced=self.layout.traced)
        ]
        return f'(ROW({", ".join(each)})::text COLLATE "C")'

    def _letter(self, number: int, reason: RefusalReason) -> DeadLetter:
        before, origin = "", "NULL::text, NULL::int, NULL::bigint"
        if self.layout.traced:
            pairs = zip(ORIGIN, STAGED_ORIGIN, strict=True)
            named = ", ".join(f"'{name}', {staged}" for name, staged in pairs)
            before = f"jsonb_build_object({named}) || "
            origin = _ORIGIN
        # ALIAS: a name that a column also has would mean the column.
        query = (
            f"SELECT ({before}to_jsonb({ALIAS}) - '{{{','.join(RESERVED)}}}'::text[])::text, "
            f"{origin} FROM {self.staged} {ALIAS} WHERE {NUMBER} = {number}"
        )
        result: tuple[Any, ...] | None = self.link.execute(query).fetchone()
        row, *place = result or ("{}", None, None, None)
        return DeadLetter.from_origin(place, row=row, **reason._asdict())


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))
