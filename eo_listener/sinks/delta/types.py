"""Casts columns of a batch to the types of a Delta table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.sinks.spark_columns import is_wider, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from eo_listener.sinks.spark_columns import Columns


def widened(name: str, rows: Columns, table: Columns) -> Column:
    """Return the column `name`, cast to the table's type if that type is wider.

    A wider type holds every value of the column's own type. Delta refuses any other difference
    between the types.
    """
    column, kind = F.col(quoted(name)), table.get(name)
    if kind is not None and is_wider(kind, rows[name]):
        return column.cast(kind)
    return column
