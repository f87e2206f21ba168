"""The columns of a table that name the source offset of its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eo_listener.errors import SettingsError


def require_origin_columns(table: str, there: Collection[str], columns: Sequence[str]) -> None:
    """Raise SettingsError if a table, as it is displayed, does not exist or lacks one."""
    missing = [name for name in columns if name not in there]
    if missing:
        raise SettingsError(
            f"table {table} has no column {missing[0]!r}"
            if there
            else f"the database has no table {table}",
            cause="rows are counted by the source's topic, partition and offset, which the "
            "transform must keep",
            fix="Name the columns that hold them: --columns TOPIC,PARTITION,OFFSET",
        )
