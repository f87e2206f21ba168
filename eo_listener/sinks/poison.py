"""Rows that cannot be written, and where they go instead: the dead-letter table.

A transform marks a row by a text in the column `eo_poison`; a store refuses a row for its values.
Either goes, with where it came from, into the table that the user named, in the same transaction,
or else the batch ends with the first of them named.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from eo_listener.errors import PoisonRowError
from eo_listener.ledger import Entry
from eo_listener.sinks.ledger_sql import Many

if TYPE_CHECKING:
    import pyarrow as pa

REASON: Final = "eo_poison"
ORIGIN: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A row that is put aside; where it came from is None where the frame does not tell.

    `row` is the row as a JSON object: bytes in base64, decimals and moments as text.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    reason: str
    row: str

    def error(self, label: str) -> PoisonRowError:
        """Say that this row stopped the batch of the sink `label`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """Which columns of a frame are written, and which rows are not.

    `columns` are those to write, in the frame's order; `marked` says whether the frame has the
    column `eo_poison`.
    """

    columns: tuple[str, ...]
    marked: bool

    @classmethod
    def of(cls, names: Sequence[str], target: Collection[str] | None) -> Sieve:
        """For a frame's columns and a target's (None: it is still to be made).

        `eo_poison` is never written; topic, partition and offset are dropped where the target
        lacks them. Raises SettingsError for any
        other column that the target lacks, and for names that differ in nothing but case.
        """
        raise NotImplementedError

    def sift(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """Return the rows that are not marked, with all their columns, and the marked ones."""
        raise NotImplementedError

    def letter(self, rows: pa.RecordBatch, index: int, reason: str) -> DeadLetter:
        """Return row `index` of `rows`, which the store refuses for `reason`, as a dead letter."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSql:
    """The statements on a dead-letter table; `table` is quoted, with its schema if it has one."""

    table: str
    placeholder: str
    moment: str

    def create(self) -> str:
        """Make the table where it is missing."""
        raise NotImplementedError

    def insert(self, entry: Entry, letters: Sequence[DeadLetter], now: datetime) -> Many:
        """Put rows aside."""
        raise NotImplementedError
