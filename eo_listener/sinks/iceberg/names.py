"""The names of a table and of the branches that a sink makes. No I/O."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from eo_listener.errors import SettingsError
from eo_listener.model.ledger import sql_literal
from eo_listener.sinks.spark_names import quoted

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_OURS: Final = re.compile(r"eo_([0-9a-f]{16})_[0-9a-f]{8}_[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class TableName:
    """The full name of a table: a catalog, one or more namespaces, and the table."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse a name in Spark SQL's form. Raises SettingsError."""
        parts: list[str] = []
        at = 0
        while match := _PART.match(text, at):
            in_backticks, plain = match.groups()
            parts.append(plain if in_backticks is None else in_backticks.replace("``", "`"))
            at = match.end()
            if text[at : at + 1] != ".":
                break
            at += 1
        if at != len(text) or text[-1:] in ("", ".") or any(not part.strip() for part in parts):
            raise SettingsError(
                f"{text!r} is not a table name",
                fix="Write catalog.namespace.table; put a part with a dot in backticks: "
                "lake.db.`a.b`",
            )
        if len(parts) < _LEAST:
            raise SettingsError(
                f"{text!r} does not name the catalog and the namespace",
                cause="a shorter name means different tables in different sessions, but the "
                "ledger is in one table",
                fix=f'Write the full name, such as "lake.db.{parts[-1]}"',
            )
        return cls(tuple(parts))

    @property
    def key(self) -> str:
        """The table's name as the key of its ledgers, and for texts."""
        plain = re.compile(r"\w+")
        return ".".join(part if plain.fullmatch(part) else quoted(part) for part in self.parts)

    @property
    def label(self) -> str:
        """The table, for display."""
        return f"Iceberg table {self.key}"

    @property
    def sql(self) -> str:
        """The table's name, quoted for a statement."""
        return ".".join(map(quoted, self.parts))

    @property
    def namespace(self) -> str:
        """The namespace's name, quoted for a statement."""
        return ".".join(map(quoted, self.parts[:-1]))

    def branch(self, name: str) -> str:
        """Return the name of the table's branch `name`, for a statement that reads or writes it."""
        return f"{self.sql}.{quoted('branch_' + name)}"

    def fast_forward(self, branch: str) -> str:
        """Return the statement that moves main forward to `branch`, which undoes a rollback."""
        table = TableName(self.parts[1:]).key
        return (
            f"CALL {quoted(self.parts[0])}.system.fast_forward"
            f"({sql_literal(table)}, 'main', {sql_literal(branch)})"
        )


_LEAST: Final = 3


def new_branch(query: str, run_id: str) -> str:
    """Return a name that no branch has had; `is_branch_of` recognises the query in the name."""
    return f"eo_{_digest(query, 16)}_{_digest(run_id, 8)}_{secrets.token_hex(6)}"


def is_branch_of(query: str, name: str) -> bool:
    """Return True if a sink has made the branch `name` for a batch of `query`."""
    match = _OURS.fullmatch(name)
    return match is not None and match[1] == _digest(query, 16)


def is_branch_of_any(name: str) -> bool:
    """Return True if a sink has made the branch `name`."""
    return _OURS.fullmatch(name) is not None


def _digest(text: str, digits: int) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
