"""The arguments of a DeltaSink, checked once. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from eo_listener.model.errors import SettingsError

_PART = re.compile(r"`(?:[^`]|``)+`|\w+")


class Mode(Enum):
    """What happens to the rows."""

    APPEND = "append"
    UPSERT = "upsert"


def quoted(name: str) -> str:
    """Return `name` as Spark's SQL writes an identifier, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where rows go, and how; one of `table` and `path` is set."""

    table: str | None
    path: str | None
    mode: Mode
    keys: tuple[str, ...]
    version_column: str | None
    delete_when: str | None
    partition_by: tuple[str, ...]
    new_columns: bool
    create: bool

    @classmethod
    def of(
        cls,
        *,
        table: str | None,
        path: str | None,
        mode: str,
        keys: str | Sequence[str],
        version_column: str | None,
        delete_when: str | None,
        partition_by: str | Sequence[str],
        new_columns: bool,
        create: bool,
    ) -> Target:
        """Check them; raises SettingsError."""
        _check_place(table, path)
        try:
            how = Mode(mode)
        except ValueError:
            raise SettingsError(
                f"mode must be one of {', '.join(repr(one.value) for one in Mode)}, got {mode!r}",
                fix="Give one of these",
            ) from None
        found = cls(
            table=table,
            path=path,
            mode=how,
            keys=_names("keys", keys),
            version_column=version_column,
            delete_when=delete_when,
            partition_by=_names("partition_by", partition_by),
            new_columns=new_columns,
            create=create,
        )
        found._check_keys()
        return found

    def _check_keys(self) -> None:
        if self.mode is Mode.UPSERT:
            if not self.keys:
                raise SettingsError(
                    'mode "upsert" needs to know which columns identify a row',
                    fix='Add keys=("column", ...)',
                )
            if self.version_column in self.keys:
                raise SettingsError(
                    f"version_column={self.version_column!r} is one of keys=, so rows with one key "
                    "have one version",
                    fix="Name a column that changes with each version of a row, or take it out of "
                    "keys=",
                )
            return
        for name, given in {
            "keys": self.keys,
            "version_column": self.version_column,
            "delete_when": self.delete_when,
        }.items():
            if given:
                raise SettingsError(
                    f"{name}= has no meaning when rows are appended",
                    fix=f'Add mode="upsert" and keys=, or drop {name}=',
                )

    def reference(self, location: str | None = None) -> str:
        """The table as Spark's SQL names it; `location` is where its path is, with a scheme."""
        if self.table is not None:
            return self.table
        return f"delta.{quoted(location or self.path or '')}"


def _check_place(table: str | None, path: str | None) -> None:
    if (table is None) == (path is None) or not (table or path):
        raise SettingsError(
            "a DeltaSink writes to a table or to a path: exactly one of them",
            fix='DeltaSink("lake.delays"), or DeltaSink(path="s3a://bucket/delays")',
        )
    if table is not None:
        parts = _PART.findall(table)
        if ".".join(parts) != table or len(parts) > 3:
            raise SettingsError(
                f"{table!r} is not the name of a table",
                cause="a name has up to three parts, as in catalog.database.table; a part with "
                "other characters than letters, digits and _ stands in backticks",
                fix='For a path: DeltaSink(path="...")',
            )


def _names(setting: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(names):
        raise SettingsError(
            f"{setting}= names columns, got {given!r}", fix="Leave out the empty one"
        )
    return names
