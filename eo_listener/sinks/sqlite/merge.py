"""Sorts the staged rows of a batch, and writes the newest row of each key.

A statement that SQLite refuses changes nothing, and the statements before it stay in effect. So the
sink writes the rows of all keys as one stream, in which a refused row is followed by the next
newest row of the same key.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from eo_listener.errors import SettingsError
from eo_listener.sinks.dead_letters import DeadLetter, RefusalReason
from eo_listener.sinks.json_values import json_scalar
from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.newest_row import (
    ORIGIN,
    STAGED_ORIGIN,
    Newest,
    TwoRows,
    tie,
    unordered,
    value_columns,
)
from eo_listener.sinks.sqlite.errors import REFUSED, check_open, refusal_reason
from eo_listener.sinks.sqlite.types import affinity, example
from eo_listener.sinks.target import Target

STAGE: Final = "temp.eo_upsert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """The statements that choose rows in STAGE and write them into the target.

    `columns` are the target's columns, with Arrow's types; in STAGE these columns have numbers as
    names, so that the user's names cannot conflict with ours. `collations` are the collations of
    the unique index on the keys. `located` is True if the target has topic, partition and offset
    too.
    """

    target: Target
    table: str
    columns: tuple[pa.Field, ...]
    collations: tuple[str, ...]
    traced: bool
    located: bool

    @classmethod
    def into_table(
        cls,
        target: Target,
        table: str,
        schema: pa.Schema,
        columns: Sequence[str],
        existing: Mapping[str, str],
        collations: Sequence[str],
    ) -> Upsert:
        """Return the upsert of `columns` into `table`, whose columns and types are `existing`.

        Raises SettingsError if the table would order versions differently from Spark.
        """
        version = target.version_column
        if version is not None:
            _check_version(version, schema.field(version).type, existing.get(version))
        traced = _traced(schema)
        return cls(
            target=target,
            table=table,
            columns=tuple(schema.field(name) for name in columns),
            collations=tuple(collations),
            traced=traced,
            located=traced and set(ORIGIN) <= set(columns),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the target's columns."""
        return tuple(field.name for field in self.columns)

    @property
    def staged(self) -> tuple[str, ...]:
        """The columns of STAGE, which have no type, so that they keep values unchanged."""
        named = tuple(f"c{at}" for at in range(len(self.columns)))
        return (*named, *(STAGED_ORIGIN if self.traced else ()))

    def write(self) -> str:
        """Return the statement that writes a row."""
        columns = ", ".join(map(quoted, self.names))
        places = ", ".join("?" * len(self.columns))
        keys = ", ".join(map(quoted, self.target.keys))
        changed = [name for name in self.names if name not in self.target.keys]
        each = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in changed)
        text = f"INSERT INTO {self.table} AS eo_there ({columns}) VALUES ({places})"
        text += f" ON CONFLICT ({keys}) DO {f'UPDATE SET {each}' if each else 'NOTHING'}"
        condition = self._two_rows(lambda name: f"excluded.{quoted(name)}").newer()
        return f"{text} WHERE {condition}" if each else text

    def unordered(self) -> str:
        """Return a query that returns one row if some staged rows may be tied.

        If it returns no row, `choose` need not compare values.
        """
        tied = self._newest(()).unordered()
        return f"SELECT 1 FROM (SELECT {tied} AS eo_tied FROM {STAGE}) WHERE eo_tied LIMIT 1"

    def choose(self, *, compared: bool) -> str:
        """Return the query for the staged rows, the newest of each key first.

        Before the columns of a staged row, the result has the row's place among the rows with its
        key; whether the row is tied; whether the table's row of this key has the same version but
        comes from a different partition; and the row's topic, partition and offset.
        """
        version = self.target.version_column
        newest = self._newest(self._values if compared else ())
        origin = ", ".join(STAGED_ORIGIN if self.traced else ("NULL",) * 3)
        named = ", ".join(f"c{at}" for at in range(len(self.columns)))
        ordered = f"SELECT {newest.place()} AS eo_place, {newest.tied()} AS eo_tied, * FROM {STAGE}"
        source, clash = f"({ordered}) eo_given", "0"
        if version is not None and self.located:
            # An expression has no affinity, so SQLite compares its value as the table's column
            # would store it; a staged column has an affinity, and '1' = 1 would be false.
            rows = self._two_rows(lambda name: f"+eo_given.{self._staged(name)}")
            source += f" LEFT JOIN {self.table} eo_there ON {self._same_key}"
            clash = (
                f"{rows.same_version()} AND NOT {rows.unknown()} "
                f"AND ({rows.same_partition()}) IS NOT 1 AND {self._differs()}"
            )
        keys = ", ".join(newest.keys)
        return (
            f"SELECT eo_place, eo_tied, {clash}, {origin}, {named} FROM {source} "
            f"ORDER BY {keys}, eo_place"
        )

    def check_versions(self, connection: sqlite3.Connection) -> None:
        """Raise SettingsError if a version in the table is not written as the sink writes it.

        SQLite compares dates and timestamps as texts.
        """
        version = self.target.version_column
        form = None if version is None else example(self.columns[self.names.index(version)].type)
        if version is None or form is None:
            return
        pattern = re.sub(r"\d", "[0-9]", form)
        query = (
            f"SELECT 1 FROM {STAGE} eo_given JOIN {self.table} eo_there ON {self._same_key} "
            f"WHERE eo_there.{quoted(version)} NOT GLOB '{pattern}' LIMIT 1"
        )
        if connection.execute(query).fetchall():
            raise SettingsError(
                f"table {self.target.table!r} has a {version!r} that another program wrote in a "
                "form of its own",
                cause="SQLite compares times as texts, so all must have the same form",
                fix=f"UPDATE the column: write all values as {form}",
            )

    @property
    def _same_key(self) -> str:
        return " AND ".join(
            f"eo_there.{quoted(key)} = +eo_given.{self._key(key)}" for key in self.target.keys
        )

    def _newest(self, values: Sequence[str]) -> Newest:
        version = self.target.version_column
        return Newest(
            keys=tuple(map(self._key, self.target.keys)),
            version=None if version is None else self._staged(version),
            values=tuple(map(self._staged, values)),
            traced=self.traced,
        )

    def _two_rows(self, in_batch: Callable[[str], str]) -> TwoRows:
        return TwoRows(
            keys=self.target.keys,
            version=self.target.version_column,
            located=self.located,
            in_table=lambda name: f"eo_there.{quoted(name)}",
            in_batch=in_batch,
            number="CAST({} AS INTEGER)",
        )

    @property
    def _values(self) -> tuple[str, ...]:
        return value_columns(self.names, traced=self.traced)

    def _differs(self) -> str:
        """Return SQL that is true if the table's row has other values; a CASE, as in `Newest`."""
        pairs = [(f"eo_there.{quoted(name)}", self._staged(name)) for name in self._values]
        cases = [f"WHEN {old} IS NOT +eo_given.{new} COLLATE BINARY THEN 1" for old, new in pairs]
        return f"CASE {' '.join(cases)} ELSE 0 END" if cases else "0"

    def _staged(self, name: str) -> str:
        return f"c{self.names.index(name)}"

    def _key(self, name: str) -> str:
        collation = self.collations[self.target.keys.index(name)]
        return f"{self._staged(name)} COLLATE {quoted(collation)}"


class RowWrites:
    """Base of the classes that write rows: runs a statement for each row, and counts rows written.

    Each statement acts as its own savepoint: a statement that SQLite refuses changes nothing, and
    the statements before it stay in effect. So the rows go in as one stream, which continues after
    a refused row.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.rows = 0
        self._connection = connection

    def _write_each(
        self, statement: str, rows: Iterator[Sequence[Any]], taken: Callable[[], int]
    ) -> Iterator[RefusalReason]:
        """Write `rows`; for each row that SQLite refuses, yield the reason.

        `taken()` returns the number of rows that SQLite has taken from `rows`; the refused row is
        the last of them. Rows with an older version, and rows that ON CONFLICT IGNORE or a
        trigger's RAISE(IGNORE) dropped, do not count as written. SQLite's count includes a
        trigger's own changes, which may hide dropped rows.
        """
        while True:
            before, changed = taken(), self._connection.total_changes
            refusal = None
            try:
                self._connection.executemany(statement, rows)
            except REFUSED as error:
                check_open(self._connection, error)
                refusal = refusal_reason(error)
            tried = taken() - before - (refusal is not None)
            self.rows += min(tried, self._connection.total_changes - changed)
            if refusal is None:
                return
            yield refusal


class Merge(RowWrites):
    """Writes the staged rows of one batch, and counts the rows written."""

    def __init__(self, connection: sqlite3.Connection, upsert: Upsert) -> None:
        super().__init__(connection)
        self._upsert = upsert
        self._has_row = False  # True if the current key has its row
        self._row: Sequence[Any] = ()
        self._offered = 0

    def run(self) -> Generator[DeadLetter, None, None]:
        """Write the newest row of each key, and yield the refused rows.

        Raises SettingsError if the newest of the rows with the same key cannot be determined.
        """
        self._upsert.check_versions(self._connection)
        # An open query would hold its lock beyond the transaction.
        compared = bool(self._connection.execute(self._upsert.unordered()).fetchall())
        with closing(self._connection.execute(self._upsert.choose(compared=compared))) as chosen:
            rows = self._newest(chosen)
            for refusal in self._write_each(self._upsert.write(), rows, lambda: self._offered):
                self._has_row = False
                yield self._letter(refusal)

    def _newest(self, chosen: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        has_clash = False
        for place, tied, clash, *row in chosen:
            if place == 1:
                self._refuse(has_clash and self._has_row, in_table=True)
                self._has_row = False
            elif self._has_row:
                continue
            self._row, has_clash = row, bool(clash)
            self._refuse(tied, in_table=False)
            self._has_row = True  # unless it is refused
            self._offered += 1
            yield row[len(ORIGIN) :]
        self._refuse(has_clash and self._has_row, in_table=True)

    def _refuse(self, is_tied: object, *, in_table: bool) -> None:
        if is_tied:
            target = self._upsert.target
            origin = self._row[: len(ORIGIN)] if self._upsert.traced else None
            raise tie(target.keys, target.version_column, origin, in_table=in_table)

    def _letter(self, refusal: RefusalReason) -> DeadLetter:
        origin = self._row[: len(ORIGIN)]
        cells: dict[str, Any] = {}
        if self._upsert.traced:
            cells = dict(zip(ORIGIN, origin, strict=True))
        for field, value in zip(self._upsert.columns, self._row[len(ORIGIN) :], strict=True):
            cells[field.name] = _plain(value, field.type)
        row = json.dumps(cells, ensure_ascii=False)
        return DeadLetter.from_origin(origin, row=row, **refusal._asdict())


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value of SQLite in the form in which JSON represents a value of type `kind`."""
    if value is None:
        return None
    if pa.types.is_nested(kind):
        return json.loads(value)
    return bool(value) if pa.types.is_boolean(kind) else json_scalar(value)


def _traced(schema: pa.Schema) -> bool:
    """Return True if the rows have topic, partition and offset, in Kafka's types."""
    if not set(ORIGIN) <= set(schema.names):
        return False
    topic, partition, offset = (schema.field(name).type for name in ORIGIN)
    is_text = pa.types.is_string(topic) or pa.types.is_large_string(topic)
    return bool(is_text and pa.types.is_int32(partition) and pa.types.is_int64(offset))


def _check_version(version: str, kind: pa.DataType, declared: str | None) -> None:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return
    if not pa.types.is_integer(kind):
        raise unordered(version, f"of type {kind}")
    if declared is not None and affinity(declared) == "TEXT":
        raise unordered(version, f"declared {declared} in the table")


def collations(
    connection: sqlite3.Connection, schema: str, table: str, keys: Sequence[str]
) -> tuple[str, ...]:
    """Return the collation by which the unique index of `keys` compares each key."""
    for _, index, unique, *_ in connection.execute(f"PRAGMA {schema}.index_list({quoted(table)})"):
        index_columns = connection.execute(
            f"PRAGMA {schema}.index_xinfo({quoted(index)})"
        ).fetchall()
        names = {name: collation for *_, name, _, collation, key in index_columns if key}
        if unique and set(names) == set(keys):
            return tuple(names[key] for key in keys)
    return ("BINARY",) * len(keys)  # the rowid has no index


def check_stage(connection: sqlite3.Connection, upsert: Upsert) -> None:
    """Raise SettingsError if the target has no unique index on the keys."""
    try:
        connection.execute(f"EXPLAIN {upsert.write()}", (None,) * len(upsert.columns))
    except sqlite3.OperationalError as error:
        if "ON CONFLICT" not in str(error):
            raise
        names = ", ".join(map(quoted, upsert.target.keys))
        raise SettingsError(
            f"the columns in keys= have no unique index in table {upsert.target.table!r}",
            fix=f"CREATE UNIQUE INDEX name_it ON {quoted(upsert.target.table)} ({names})",
        ) from error
