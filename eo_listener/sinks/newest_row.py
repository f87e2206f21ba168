"""Decides which row of a key is the newest, by one rule for every SQL store. No I/O.

If the user has named a version column, the greater version wins. If versions are equal, or there is
no version column, the greater offset wins, provided that both rows come from the same partition.
Kafka orders neither the records of two partitions nor the rows that a transform makes from one
record. Such rows are tied, unless they differ only in topic, partition and offset, as after a
record was produced twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eo_listener.errors import SettingsError
from eo_listener.offsets import TopicPartition

ORIGIN: Final = ("topic", "partition", "offset")
STAGED_ORIGIN: Final = ("eo_topic", "eo_partition", "eo_offset")
"""The columns with topic, partition and offset of staged rows, always in Kafka's types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Numbers the staged rows of each key, the newest first.

    `keys`, `version` and `values` are SQL expressions; only rows that differ in one of `values` are
    tied. `traced` is True if staged rows have STAGED_ORIGIN.
    """

    keys: tuple[str, ...]
    version: str | None
    values: tuple[str, ...]
    traced: bool

    def place(self) -> str:
        """Return the SQL expression for a row's place among the rows with its key, from 1."""
        order = [] if self.version is None else [f"{self.version} DESC"]
        if self.traced:
            # The partition too, so that among rows with equal values the choice is always the same.
            order += [f"{column} DESC" for column in reversed(STAGED_ORIGIN)]
        order_by = f" ORDER BY {', '.join(order)}" if order else ""
        return f"row_number() OVER (PARTITION BY {', '.join(self.keys)}{order_by})"

    def tied(self) -> str:
        """Return the SQL condition that a row is tied with another row of its key."""
        window = f"OVER (PARTITION BY {', '.join(self._among)})"
        differ = [
            f"count({value}) {window} BETWEEN 1 AND count(*) {window} - 1 "
            f"OR min({value}) {window} < max({value}) {window}"
            for value in self.values
        ]
        if not differ:
            return "(1 = 0)"
        # A CASE, since SQLite does not accept a chain of a thousand ORs.
        cases = " ".join(f"WHEN {value} THEN 1" for value in differ)
        return f"({self.unordered()} AND CASE {cases} ELSE 0 END = 1)"

    def unordered(self) -> str:
        """Return the SQL condition that a row is tied, or would be tied if its values differed."""
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
    """Compares a row of a batch with the table's row of the same key, in SQL conditions.

    `in_table` and `in_batch` return the SQL for a column of the table's row and of the batch's row;
    `number` is a format string that makes an offset comparable, such as a CAST. `located` is True
    if both rows have ORIGIN.
    """

    keys: tuple[str, ...]
    version: str | None
    located: bool
    in_table: Callable[[str], str]
    in_batch: Callable[[str], str]
    number: str = "{}"

    def same_key(self) -> str:
        """Return the condition that both rows have the same key."""
        return self._equal(self.keys)

    def same_version(self) -> str:
        """Return the condition that both rows have the same version.

        Call this method only if there is a version column.
        """
        return self._equal((self.version or "",))

    def same_partition(self) -> str:
        """Return the condition that both rows are from one partition, whose offsets order them."""
        return self._equal(ORIGIN[:2])

    def unknown(self) -> str:
        """Return the condition that the table's row lacks topic, partition or offset."""
        return f"({' OR '.join(f'{self.in_table(name)} IS NULL' for name in ORIGIN)})"

    def newer(self) -> str:
        """Return the condition that the batch's row replaces the table's row.

        If the versions are equal and both rows have topic, partition and offset, the batch's row
        replaces the table's row only if both are from the same partition and the table's offset is
        not greater.
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
    """Return `columns`, without topic, partition and offset if `traced` is True."""
    return tuple(name for name in columns if not (traced and name in ORIGIN))


def tie(
    keys: Sequence[str], version: str | None, origin: Sequence[Any] | None, *, in_table: bool
) -> SettingsError:
    """Return the error for two tied rows of a key; `in_table` is True if one row is in the table.

    `origin` is topic, partition and offset of one of the rows, or None if the rows lack these
    columns.
    """
    columns = ", ".join([*keys, *([] if version is None else [version])])
    origin_text = ""
    if origin is not None and None not in origin:
        origin_text = f" (one is from offset {origin[2]} of {TopicPartition(origin[0], origin[1])})"
    if in_table:
        return SettingsError(
            f"a row of the batch and a row of the table have the same {columns}{origin_text}",
            cause="the newer row cannot be determined: the rows come from different partitions",
            fix="To write the batch's row, delete the table's row; to keep the table's row, filter "
            "out the batch's row in the transform. If a later batch should always win, drop the "
            "columns topic, partition and offset from the table",
        )
    cause = "the newest row cannot be determined: "
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
    """Raise SettingsError if the table lacks one of `columns`, or does not exist.

    `table` is the name to show, and `existing` its columns, empty if the table does not exist.
    """
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


def require_written(keys: Sequence[str], version: str | None, columns: Collection[str]) -> None:
    """Raise SettingsError if a key or the version is not among the `columns` to write."""
    settings = {"keys": keys, "version_column": () if version is None else (version,)}
    for setting, names in settings.items():
        missing = [name for name in names if name not in columns]
        if missing:
            raise SettingsError(
                f"{setting}= names {', '.join(map(repr, missing))}, which the rows or the table "
                "lack",
                fix="Name columns that both have, with the same case",
            )


def unordered(version: str, kind: str) -> SettingsError:
    """Return the error for a version column whose type has a different order in some stores."""
    return SettingsError(
        f"version_column={version!r} is {kind}",
        cause="only integers, dates and timestamps have the same order in every store",
        fix="Cast it in the transform (to long, or to timestamp), and in the table too",
    )
