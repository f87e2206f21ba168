"""Picks the newest row of each key of a batch, and writes these rows with Spark's MERGE.

Spark computes the batch's rows once, and keeps them without a lineage: MERGE reads the rows several
times, and a second computation can yield different rows. The kept columns have numbers as names, so
that the user's column names cannot conflict with those of eo_listener.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.model.fault_points import fault_point
from eo_listener.sinks.dead_letters import DeadLetter
from eo_listener.sinks.kept_rows import keep_as_view
from eo_listener.sinks.newest_row import ORIGIN, STAGED_ORIGIN, Newest, TwoRows, tie, value_columns
from eo_listener.sinks.spark_columns import is_nested, is_traced, types_of
from eo_listener.sinks.spark_names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from eo_listener.errors import PoisonRowError
    from eo_listener.sinks.spark_columns import Columns
    from eo_listener.sinks.target import WriteRules

_DELETED: Final = "eo_deleted"
_PLACE, _TIED = "eo_place", "eo_tied"
_MICROSECONDS: Final = "yyyy-MM-dd HH:mm:ss.SSSSSS"
EXACT: Final = {  # without these options, Spark cuts times to milliseconds
    "ignoreNullFields": "false",
    "timestampFormat": _MICROSECONDS,
    "timestampNTZFormat": _MICROSECONDS,
    "timeZone": "UTC",
}
_WITH_SIGNED_ZERO: Final = ("float", "double")
_NO_ORIGIN: Final = "CAST(NULL AS string), CAST(NULL AS int), CAST(NULL AS bigint)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merges rows of the types `rows` into `table`; `columns` are the columns to write.

    `uuids` are keys that are strings in Spark, but of type uuid in the table.

    Call `staged` to stage the rows and `check_table` to compare them with the table, then run the
    statement that `statement` returns.
    """

    target: WriteRules
    table: str
    label: str
    rows: Columns
    columns: tuple[str, ...]
    uuids: tuple[str, ...] = ()

    @property
    def traced(self) -> bool:
        """True if the batch's rows have the columns topic, partition and offset."""
        return is_traced(self.rows)

    @property
    def located(self) -> bool:
        """True if both the rows and the table have the columns topic, partition and offset."""
        return self.traced and set(ORIGIN) <= set(self.columns)

    @contextmanager
    def staged(self, frame: DataFrame) -> Iterator[str]:
        """Compute the rows of `frame`, and yield the name of their view, for use in the block.

        In the view each row has its place among the rows with the same key. Raises SettingsError if
        the newest row of a key cannot be determined, PoisonRowError for a row without key or
        version.
        """
        session, view = frame.sparkSession, f"eo_staged_{uuid4().hex}"
        with keep_as_view(self._placed(frame), view):
            fault_point("sink.staged")
            self._check(session, view)
            yield view

    def check_table(self, session: SparkSession, view: str) -> None:
        """Raise SettingsError if a row in `view` is tied with the table's row of the same key.

        Two rows are tied if their versions are equal and they come from different partitions.
        """
        version = self.target.version_column
        if version is None or not self.located:
            return
        table_types = types_of(session.table(self.table).schema)
        for origin in _rows(session, self._clash(view, table_types)):
            raise tie(self.target.keys, version, origin, in_table=True)

    def concerns(self, session: SparkSession, view: str, table_rows: DataFrame) -> bool:
        """Return True if one of the table's rows in `table_rows` has the key of a row in `view`."""
        rows = session.table(view).alias("eo_given")  # on the left: Spark broadcasts the right side
        same_key = F.expr(self._two_rows.same_key())
        return not rows.join(table_rows.alias("eo_there"), same_key, "leftsemi").isEmpty()

    def count(self, session: SparkSession, view: str) -> int:
        """Return the number of different keys in `view`."""
        ((count,),) = _rows(session, f"SELECT count(*) FROM {view} WHERE {_PLACE} = 1")
        return int(count)

    def statement(self, view: str) -> str:
        """Return the MERGE statement for the rows in `view`."""
        names = dict(self._staged_names())
        changed = [name for name in self.columns if name not in self.target.keys]
        listed = ", ".join(map(quoted, self.columns))
        values = ", ".join(f"eo_given.{names[name]}" for name in self.columns)
        each = ", ".join(f"eo_there.{quoted(name)} = eo_given.{names[name]}" for name in changed)
        parts = [
            f"MERGE INTO {self.table} AS eo_there",
            f"USING (SELECT * FROM {view} WHERE {_PLACE} = 1) AS eo_given",
            f"ON {self._two_rows.same_key()}",
        ]
        if self.target.delete_when is not None:
            parts.append(
                f"WHEN MATCHED AND eo_given.{_DELETED} AND {self._two_rows.newer()} THEN DELETE"
            )
        if each:
            parts.append(f"WHEN MATCHED AND {self._two_rows.newer()} THEN UPDATE SET {each}")
        parts.append(
            f"WHEN NOT MATCHED AND NOT eo_given.{_DELETED} THEN INSERT ({listed}) VALUES ({values})"
        )
        return "\n".join(parts)

    def _placed(self, frame: DataFrame) -> DataFrame:
        deleted = F.lit(False) if self.target.delete_when is None else self._deletes()
        staged = frame.select(
            *(self._value(name).alias(alias) for name, alias in self._staged_names()),
            deleted.alias(_DELETED),
            *(
                F.col(quoted(name)).alias(alias)
                for name, alias in zip(ORIGIN, STAGED_ORIGIN, strict=True)
                if self.traced
            ),
        )
        newest = self._newest()
        return staged.select(
            "*", F.expr(_ordered(newest.place())).alias(_PLACE), F.expr(newest.tied()).alias(_TIED)
        )

    def _value(self, name: str) -> Column:
        """Return the column `name` of the rows; if it is a key, as Iceberg writes it.

        For Spark -0.0 and 0.0 are equal, but Iceberg skips the files that have the other zero. A
        uuid is written in lower case; a text that is not a UUID becomes null.
        """
        value = F.col(quoted(name))
        if name in self.uuids:
            return F.when(is_uuid(value), F.lower(value))
        if name not in self.target.keys or self.rows[name] not in _WITH_SIGNED_ZERO:
            return value
        return F.when(value == 0, F.lit(0).cast(self.rows[name])).otherwise(value)

    def _check(self, session: SparkSession, view: str) -> None:
        origin = ", ".join(STAGED_ORIGIN) if self.traced else _NO_ORIGIN
        lacks = [f"{self._staged(key)} IS NULL" for key in self.target.keys]
        version = self.target.version_column
        if version is not None:
            lacks.append(f"{self._staged(version)} IS NULL")
        lacking = f"({' OR '.join(lacks)})"
        query = (
            f"SELECT {lacking}, {origin} FROM {view} "
            f"WHERE {lacking} OR ({_PLACE} = 1 AND {_TIED}) ORDER BY 1 DESC LIMIT 1"
        )
        for lacks_some, *row_origin in _rows(session, query):
            if lacks_some:
                raise self._lacking(row_origin)
            origin_or_none = row_origin if self.traced else None
            raise tie(self.target.keys, version, origin_or_none, in_table=False)

    def _clash(self, view: str, table_types: Columns) -> str:
        """Return the query that finds a row of `view` that is tied with the table's row of its key.

        `table_types` are the types of the table's columns, to which the MERGE would convert the
        row.
        """
        rows = self._two_rows
        values = self._values()
        in_table = _text([self._exact(f"eo_there.{quoted(name)}", name) for name in values])
        in_batch = _text([self._given_as(name, table_types.get(name)) for name in values])
        origin = ", ".join(f"eo_given.{column}" for column in STAGED_ORIGIN)
        return (
            f"SELECT {origin} FROM {view} eo_given "
            f"JOIN {self.table} eo_there ON {rows.same_key()} WHERE eo_given.{_PLACE} = 1 "
            f"AND {rows.same_version()} AND NOT {rows.unknown()} AND NOT ({rows.same_partition()}) "
            f"AND (eo_given.{_DELETED} OR NOT ({in_table} <=> {in_batch})) LIMIT 1"
        )

    def _given_as(self, name: str, kind: str | None) -> str:
        staged = f"eo_given.{self._staged(name)}"
        if kind is None or is_nested(kind) or kind == self.rows[name]:
            return self._exact(staged, name)
        return f"CAST({staged} AS {kind})"

    @property
    def _two_rows(self) -> TwoRows:
        return TwoRows(
            keys=self.target.keys,
            version=self.target.version_column,
            located=self.located,
            in_table=lambda name: f"eo_there.{quoted(name)}",
            in_batch=lambda name: f"eo_given.{self._staged(name)}",
        )

    def _newest(self) -> Newest:
        version = self.target.version_column
        values = [self._exact(self._staged(name), name) for name in self._values()]
        return Newest(
            keys=tuple(map(self._staged, self.target.keys)),
            version=None if version is None else self._staged(version),
            values=(_text([*values, _DELETED]),),
            traced=self.traced,
        )

    def _exact(self, value: str, name: str) -> str:
        """Return SQL for a value to compare: `_text` would replace bytes that are not UTF-8."""
        return f"CAST({value} AS BINARY)" if self.rows[name].startswith("string") else value

    def _values(self) -> Sequence[str]:
        return value_columns(self.columns, traced=self.traced)

    def _staged_names(self) -> list[tuple[str, str]]:
        return [(name, f"c{at}") for at, name in enumerate(self.columns)]

    def _staged(self, name: str) -> str:
        return f"c{self.columns.index(name)}"

    def _deletes(self) -> Any:
        return F.coalesce(F.expr(self.target.delete_when or "").cast("boolean"), F.lit(False))

    def _lacking(self, origin: Sequence[Any]) -> PoisonRowError:
        needed = [*self.target.keys, *filter(None, [self.target.version_column])]
        uuids = "".join(f", or {name} is not a UUID" for name in self.uuids)
        reason = f"one of {', '.join(needed)} is null{uuids}"
        return DeadLetter.from_origin(origin, reason).error(
            self.label,
            cause="they identify the row to replace, and tell which of the two rows is newer",
            fix="Filter such rows out in the transform, or give them values",
        )


def is_uuid(column: Column) -> Column:
    """Return the condition that a string is a UUID as Java writes it, in upper or lower case."""
    return column.rlike("^(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def _rows(session: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(text).collect()]


def _text(values: Sequence[str]) -> str:
    """Return SQL that joins `values` into one text to compare: Spark cannot compare maps."""
    named = ", ".join(f"{value} AS v{at}" for at, value in enumerate(values))
    options = ", ".join(f"'{name}', '{value}'" for name, value in EXACT.items())
    return f"to_json(struct({named}), map({options}))"


def _ordered(window: str) -> str:
    """Return `window` with an ORDER BY, which row_number() needs; the default is a dummy."""
    return window if " ORDER BY " in window else f"{window.removesuffix(')')} ORDER BY 0)"
