"""Which of the rows with one key is the newest: one rule for every SQL store. Pure.

The greater version wins, if the user has named a version column; of equal versions, or without one,
the greater offset of one partition. Kafka orders neither the records of two partitions nor the rows
that a transform makes of one record: such rows are tied, unless they are equal apart from their
origin, as with a record that was produced twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eo_listener.errors import SettingsError
from eo_listener.offsets import TopicPartition

ORIGIN: Final = ("topic", "partition", "offset")
STAGED_ORIGIN: Final = ("eo_topic", "eo_partition", "eo_offset")
"""Columns of staged rows: the origin of each, in Kafka's types, whatever the table has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Places the staged rows of each key, the newest first.

    `keys` and `version` are as SQL writes them, and so are `values`: what rows must differ in to
    be tied. `traced`: staged rows have STAGED_ORIGIN.
    """

    keys: tuple[str, ...]
    version: str | None
    values: tuple[str, ...]
    traced: bool

    def place(self) -> str:
        """An expression for a row's place among those of its key, from 1."""
        order = [] if self.version is None else [f"{self.version} DESC"]
        if self.traced:
            # The partition too, so that of rows that say the same it is always the same one.
            order += [f"{column} DESC" for column in reversed(STAGED_ORIGIN)]
        order_by = f" ORDER BY {', '.join(order)}" if order else ""
        return f"row_number() OVER (PARTITION BY {', '.join(self.keys)}{order_by})"

    def tied(self) -> str:
        """An expression for whether a row cannot be ordered against another of its key."""
        window = f"OVER (PARTITION BY {', '.join(self._among)})"
        differ = [
            f"count({value}) {window} BETWEEN 1 AND count(*) {window} - 1 "
            f"OR min({value}) {window} < max({value}) {window}"
            for value in self.values
        ]
        if not differ:
            return "(1 = 0)"
        # A CASE, since SQLite takes no chain of a thousand ORs.
        cases = " ".join(f"WHEN {value} THEN 1" for value in differ)
        return f"({self.unordered()} AND CASE {cases} ELSE 0 END = 1)"

    def unordered(self) -> str:
        """An expression for whether a row is tied, or would be if its other values differed."""
        window = f"OVER (PARTITION BY {', '.join(self._among)})"
        several = f"count(*) {window} > 1"
        if not self.traced:
            return f"({several})"
        topic, partition, offset = STAGED_ORIGIN
        unlike = [
            *(f"count({column}) {window} < count(*) {window}" for column in STAGED_ORIGIN),
            *(f"min({column}) {window} < max({column}) {window}" for column in (topic, partition)),
            f"count(*) OVER (PARTITION BY {', '.join([*self._among, offset])}) > 1",
        ]
        return f"({several} AND ({' OR '.join(unlike)}))"

    @property
    def _among(self) -> tuple[str, ...]:
        return self.keys if self.version is None else (*self.keys, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRows:
    """Compares a row of a batch with that of its key in the table, in conditions of SQL.

    `in_table` and `in_batch` write a column of each, `number` an offset to be compared. `located`:
    both have ORIGIN.
    """

    keys: tuple[str, ...]
    version: str | None
    located: bool
    in_table: Callable[[str], str]
    in_batch: Callable[[str], str]
    number: str = "{}"

    def same_key(self) -> str:
        """A condition for rows of one key."""
        return self._equal(self.keys)

    def same_version(self) -> str:
        """A condition for rows of one version, if the user has named its column."""
        return self._equal((self.version or "",))

    def same_partition(self) -> str:
        """A condition for rows whose order their offsets say."""
        return self._equal(ORIGIN[:2])

    def unknown(self) -> str:
        """A condition for a row in the table that does not name its origin."""
        return f"({' OR '.join(f'{self.in_table(name)} IS NULL' for name in ORIGIN)})"

    def newer(self) -> str:
        """A condition for the batch's row to replace the table's.

        Of one version, if both have their origin, only a later row of the same partition does.
        """
        if self.version is None:
            return "true"
        old, new = self.in_table(self.version), self.in_batch(self.version)
        same = self.same_version()
        if self.located:
            offsets = [self.number.format(row(ORIGIN[2])) for row in (self.in_batch, self.in_table)]
            later = f"{self.same_partition()} AND {' >= '.join(offsets)}"
            same += f" AND ({self.unknown()} OR ({later}))"
        return f"({old} IS NULL OR {new} > {old} OR ({same}))"

    def _equal(self, names: Iterable[str]) -> str:
        return " AND ".join(f"{self.in_table(name)} = {self.in_batch(name)}" for name in names)


def value_columns(columns: Sequence[str], *, traced: bool) -> tuple[str, ...]:
    """Return the columns other than those of a row's origin."""
    return tuple(name for name in columns if not (traced and name in ORIGIN))


def tie(
    keys: Sequence[str], version: str | None, origin: Sequence[Any] | None, *, in_table: bool
) -> SettingsError:
    """Return the error for rows of which none is the newest; `in_table`: one is in the table.

    `origin` is that of one of them, None if the rows do not have it.
    """
    columns = ", ".join([*keys, *([] if version is None else [version])])
    origin_text = ""
    if origin is not None and None not in origin:
        origin_text = f" (one is from offset {origin[2]} of {TopicPartition(origin[0], origin[1])})"
    if in_table:
        return SettingsError(
            f"a row of the batch and a row of the table have the same {columns}{origin_text}",
            cause="the newest cannot be determined: they come from several partitions",
            fix="To write the batch's row, delete the table's; to keep the table's, filter "
            "the batch's in the transform. If a later batch may always win, drop the "
            "columns topic, partition and offset from the table",
        )
    cause = "the newest cannot be determined: "
    if origin is None:
        cause += "the rows do not name their source offset"
        fix = "Keep topic, partition and offset in the rows (the greatest offset wins), "
    else:
        cause += "they come from several partitions or from one record"
        fix = ""
    if version is None:
        fix += 'name a column that orders them (version_column="..."), '
    else:
        fix += f"give {version} values that differ, "
    fix += "or keep one row for each key in the transform"
    return SettingsError(
        f"a batch has several rows with the same {columns}{origin_text}",
        cause=cause,
        fix=fix[0].upper() + fix[1:],
    )


def require_origin_columns(table: str, existing: Collection[str], columns: Sequence[str]) -> None:
    """Raise SettingsError if a table, as it is displayed, does not exist or lacks one."""
    missing = [name for name in columns if name not in existing]
    if missing:
        raise SettingsError(
            f"table {table} has no column {missing[0]!r}"
            if existing
            else f"the database has no table {table}",
            cause="rows are counted by the source's topic, partition and offset, which the "
            "transform must keep",
            fix="Name the columns that hold them: --columns TOPIC,PARTITION,OFFSET",
        )


def unordered(version: str, kind: str) -> SettingsError:
    """Return the error for a version column of a type that not every store orders alike."""
    return SettingsError(
        f"version_column={version!r} is {kind}",
        cause="only integers, dates and timestamps have the same order in every store",
        fix="Cast it in the transform (to long, or to timestamp), in the table too",
    )
