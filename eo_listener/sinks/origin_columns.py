"""The columns of a table that say of which source offset its rows are."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eo_listener.model.errors import SettingsError


def require_origin_columns(table: str, there: Collection[str], columns: Sequence[str]) -> None:
    """Raise SettingsError where a table, as it is shown to people, is absent or lacks one."""
    missing = [name for name in columns if name not in there]
    if missing:
        raise SettingsError(
            f"table {table} has no column {missing[0]!r}"
            if there
            else f"the database has no table {table}",
            cause="rows are counted by the source's topic, partition and offset, which the "
            "transform must keep",
            fix="Name the columns that have them: --columns TOPIC,PARTITION,OFFSET",
        )
