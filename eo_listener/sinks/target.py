"""The arguments about the target that all SQL sinks have, and the checks of these arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from eo_listener.errors import SettingsError
from eo_listener.model.argument_checks import choice
from eo_listener.model.ledger import Entry, Head, sql_literal
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.dead_letters import SHARE, DeadLetterLimit
from eo_listener.sinks.ledger_sql import HEADS, HISTORY

STAGED: Final = "eo_batch"
"""The table in which `apply=` finds the batch's rows, for one transaction only."""

Function: TypeAlias = "Callable[[Any, Entry], object]"
Apply: TypeAlias = "str | Sequence[str] | Function"
"""The user's part of the transaction: statements, or a function of connection and entry."""


class Mode(Enum):
    """The way in which a sink writes rows: it appends them, or replaces rows with the same keys."""

    APPEND = "append"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRules:
    """The arguments about the way in which rows are written. Raises SettingsError."""

    mode: Mode = Mode.APPEND
    #: The columns that identify a row, for Mode.UPSERT.
    keys: tuple[str, ...] = ()
    #: The column that orders rows with the same key: the greater version is newer.
    version_column: str | None = None
    #: An SQL condition on a batch's rows: a row that meets it deletes the row with the same key.
    delete_when: str | None = None

    def __post_init__(self) -> None:
        """Raise SettingsError if keys, version column or delete condition do not fit the mode."""
        if self.mode is Mode.APPEND:
            for name in ("keys", "version_column", "delete_when"):
                if getattr(self, name):
                    raise SettingsError(
                        f"{name}= has no meaning when rows are appended",
                        fix=f'Add mode="upsert" and keys=, or remove {name}=',
                    )
            return
        if not self.keys:
            raise SettingsError(
                f"mode {self.mode.value!r} needs the columns that identify a row",
                fix='Add keys=("column", ...)',
            )
        if self.version_column in self.keys:
            raise SettingsError(
                f"version_column={self.version_column!r} is one of keys=, so rows with the same "
                "key have the same version",
                fix="Name a column that changes with each version of a row, or remove it from "
                "keys=",
            )
        if self.delete_when is not None and not self.delete_when.strip():
            raise SettingsError(
                "delete_when= is empty",
                fix="Give an SQL condition on the rows of a batch, or remove delete_when=",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(WriteRules):
    """The table that a sink writes, and how it writes rows."""

    #: The table's name. With `apply` it only names the sink in the ledger.
    table: str
    apply: tuple[str, ...] | Function | None
    #: True if the sink may create its tables.
    create: bool
    #: The name of the dead-letter table, or None.
    dead_letters: str | None
    limit: DeadLetterLimit

    @classmethod
    def from_arguments(
        cls,
        *,
        table: str,
        mode: str,
        keys: str | Sequence[str],
        version_column: str | None = None,
        delete_when: str | None = None,
        apply: Apply | None,
        create: bool,
        dead_letters: str | None,
        max_dead_letters: float = SHARE,
    ) -> Target:
        """Return the target for the arguments of a sink. Raises SettingsError."""
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        chosen_mode = choice(Mode, "mode", mode)
        _check_names(table, dead_letters, (*names, version_column))
        if apply is not None and chosen_mode is not Mode.APPEND:
            raise SettingsError(
                f"apply= defines what is written, so mode {mode!r} has no meaning with it",
                fix="Remove mode= and keys=, or apply=",
            )
        return cls(
            table=table,
            mode=chosen_mode,
            keys=names,
            version_column=version_column,
            delete_when=delete_when,
            apply=_statements(apply),
            create=create,
            dead_letters=dead_letters,
            limit=DeadLetterLimit(max_dead_letters),
        )

    @property
    def statements(self) -> tuple[str, ...]:
        """The user's SQL statements; empty if `apply` is a function."""
        return () if self.apply is None or callable(self.apply) else self.apply


def not_created(what: str, creation: str) -> SettingsError:
    """Return the error for a table or a ledger that a sink with create=False must not create.

    `what` reports that it does not exist; `creation` is the statement or command that creates it.
    """
    fix = f"As a user who may create it, run: {creation}"
    return SettingsError(f"{what}, and create=False", fix=fix)


def refuse_dotted(setting: str, name: str, *, has_schemas: bool) -> None:
    """Refuse to create a table with a dot in its name.

    The part before the dot is probably a schema.
    """
    before, dot, after = name.rpartition(".")
    if not dot:
        return
    instead = f"schema={before!r}, {setting}={after!r}" if has_schemas else f"{setting}={after!r}"
    raise SettingsError(
        f"table {name!r} does not exist, and the sink does not create a table with a dot in its "
        "name",
        cause=f"{setting}= is a single name: a dot in it does not separate a schema from a table",
        fix=f"Write {instead}; if the dot belongs to the name, create that table first",
    )


def _check_names(table: str, dead_letters: str | None, columns: Iterable[str | None]) -> None:
    for name in (table, dead_letters, *columns):
        if name is not None and (not name or "\x00" in name):
            raise SettingsError(
                f"{name!r} is not a valid name of a table or column",
                fix="Give a non-empty name without NUL characters",
            )
    tables = [name.lower() for name in (table, dead_letters) if name is not None]
    if len({*tables, HEADS, HISTORY}) < len(tables) + 2:  # SQLite ignores case in names
        raise SettingsError(
            f"table {table!r} and dead_letters {dead_letters!r} cannot be used together with "
            f"the ledger's own {HEADS} and {HISTORY}",
            fix="Give each table a different name",
        )


def _statements(apply: object) -> tuple[str, ...] | Function | None:
    """Return statements as a tuple: the first batch would exhaust an iterator."""
    if apply is None or callable(apply):
        return apply
    texts = (apply,) if isinstance(apply, str) or not isinstance(apply, Iterable) else tuple(apply)
    if not all(isinstance(text, str) for text in texts) or not any(map(str.strip, texts)):
        raise SettingsError(
            "apply= has no statement, so no row of a batch would be written",
            cause="it is empty, or holds something that is not a string",
            fix="Give SQL strings, one statement each, or a function of connection and entry",
        )
    return texts


def refuse_dropped(label: str, key: str, query: str, heads: Mapping[TopicPartition, Head]) -> None:
    """Raise SettingsError if a missing table has a ledger that records written offsets.

    A new table would begin with a later batch, and lack the rows of all earlier ones. `heads` are
    all heads of the sink and query, including those of partitions from which the batch has no rows.
    """
    ends = ((tp, head.range.until) for tp, head in sorted(heads.items()))
    written = [(tp, until) for tp, until in ends if until > 0]
    if not written:
        return
    tp, until = written[0]
    more = f", and {len(written) - 1} more" if len(written) > 1 else ""
    raise SettingsError(
        f"{label} does not exist, but its ledger records that {tp} was written up to {until}{more}",
        cause="the table was dropped or renamed afterwards",
        fix="Restore the table, or rename it back. To begin again with an empty table, run "
        f"DELETE FROM {HEADS} WHERE sink = {sql_literal(key)} AND query = "
        f"{sql_literal(query)}, and start with a new checkpointLocation",
    )
