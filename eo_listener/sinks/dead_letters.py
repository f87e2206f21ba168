"""Rows that cannot be written, and the dead-letter table that they go to instead.

A transform marks a row with a text in the column `eo_poison`; a store refuses a row for its values.
Both kinds of rows go, with their topic, partition and offset, into the table that the user named,
in the transaction of the batch. If the user named no table, the batch fails, and the error names
the first such row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from eo_listener.errors import PoisonRowError, SettingsError
from eo_listener.model.ledger import Entry
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.json_values import json_row
from eo_listener.sinks.ledger_sql import Many, now_text
from eo_listener.sinks.newest_row import ORIGIN, require_written

REASON: Final = "eo_poison"

REDACTED: Final = "eo_redacted"
LETTER: Final = ("query", "query_id", "run_id", "batch_id", *ORIGIN, "reason", "row", "put_at")
"""The columns of a dead-letter table."""
SHARE: Final = 0.5
"""The default limit on a batch's refused rows, as a share of its rows."""
FEW: Final = 10
"""With fewer refused rows, a limit that is a share does not apply, and all rows may be refused."""
_FAILS: Final = "such a row fails its batch; nothing was written"
_NAME_TABLE: Final = 'Name a table or topic for such rows (dead_letters="..."), or filter them out'
_REASONS = 1000  # reasons counted at most: each row may have a different reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A row that could not be written, with its topic, partition and offset, each None if unknown.

    `row` is the row as a JSON object, in the format of `json_text`. `redacted` is the reason
    without values of the row, for logs; if it is None, `reason` itself may go into logs. All texts
    escape NUL, which PostgreSQL's texts cannot hold.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    reason: str
    row: str
    redacted: str | None = None

    def __post_init__(self) -> None:
        """Escape NUL."""
        for name in ("topic", "reason", "row", "redacted"):
            text = getattr(self, name)
            if text is not None and "\x00" in text:
                object.__setattr__(self, name, text.replace("\x00", "\\x00"))

    @property
    def shown(self) -> str:
        """The reason that may go into logs."""
        return self.reason if self.redacted is None else self.redacted

    @classmethod
    def from_origin(
        cls, origin: Sequence[object], reason: str, row: str = "", redacted: str | None = None
    ) -> DeadLetter:
        """Return the dead letter for a row with the topic, partition and offset `origin`.

        A value that is not of Kafka's type counts as unknown.
        """
        topic, partition, offset = origin
        return cls(
            topic=topic if isinstance(topic, str) else None,
            partition=partition if isinstance(partition, int) else None,
            offset=offset if isinstance(offset, int) else None,
            reason=reason,
            row=row,
            redacted=redacted,
        )

    def place(self) -> tuple[TopicPartition | None, str]:
        """Return the row's partition, or None if unknown, and its source offset in words."""
        if self.topic is None or self.partition is None or self.offset is None:
            return None, "a row without topic, partition and offset"
        tp = TopicPartition(self.topic, self.partition)
        return tp, f"the row from offset {self.offset} of {tp}"

    def error(self, label: str, *, cause: str = _FAILS, fix: str = _NAME_TABLE) -> PoisonRowError:
        """Return the error to raise if this row fails the batch of the sink `label`.

        The error contains no value of the row, since errors end up in logs.
        """
        tp, where = self.place()
        keep = "; keep topic, partition and offset in the rows to see where a row comes from"
        return PoisonRowError(
            f"{where} cannot be written to {label}: {self.shown}",
            partition=tp,
            offset=self.offset if tp else None,
            cause=cause,
            fix=fix + ("" if tp else keep),
        )


class RefusalReason(NamedTuple):
    """The reason why a row is refused, and a form of this reason that may go into logs."""

    reason: str
    redacted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Chooses the columns of a frame to write, and the rows not to write.

    `columns` are the columns to write, in the frame's order. `marked` is True if the frame has the
    column `eo_poison`. `version` is the column that must not be null, or None.
    """

    columns: tuple[str, ...]
    marked: bool
    version: str | None = None

    @classmethod
    def for_target(
        cls,
        names: Sequence[str],
        target: Collection[str] | None,
        version: str | None = None,
        *,
        keys: Sequence[str] = (),
        fix: str = "or add them to the table",
    ) -> RowFilter:
        """Return the filter for rows with the columns `names`; `target` has the table's columns.

        `target` is None if the sink has yet to create the table. `fix` is a further remedy, which
        the error names if the target lacks a column. The filter never writes `eo_poison`, and
        leaves out topic, partition and offset if the target lacks them. Raises SettingsError for
        any other column that the target lacks, for names that differ only in case, for `eo_poison`
        in a different case, for keys or a version column that are not written, and for a frame with
        no column to write.
        """
        folded = [name.casefold() for name in names]
        twice = sorted({name for name in names if folded.count(name.casefold()) > 1})
        if twice:
            raise SettingsError(
                f"the rows have the columns {_listed(twice)}, which a store cannot tell apart",
                fix="Give each column a name of its own in the transform",
            )
        for name in names:
            if name != REASON and name.casefold() == REASON:
                raise SettingsError(
                    f"the rows have a column {name!r}, which is neither the mark {REASON} nor data",
                    cause="the mark must be spelled exactly like that, in lower case",
                    fix=f'df.withColumnRenamed("{name}", "{REASON}") in the transform',
                )
        lacking = () if target is None else set(names) - set(target) - {REASON}
        missing = sorted(set(lacking) - set(ORIGIN))
        if missing:
            raise SettingsError(
                f"the target has no column {_listed(missing)}; it has {_listed(target or ())}",
                cause="columns are matched by name, case-sensitively",
                fix=f"Select or rename the columns in the transform, {fix}",
            )
        columns = tuple(name for name in names if name != REASON and name not in lacking)
        if not columns:
            raise SettingsError(
                "the rows have no column to write",
                fix="Select at least one column of the target in the transform",
            )
        require_written(keys, version, columns)
        return cls(columns=columns, marked=REASON in names, version=version)

    def sift(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """Return the rows to write, which the store may still refuse, and the refused rows.

        The filter refuses a row that is marked, has no version, or has a text that is not UTF-8
        (Spark casts any bytes to a string). It escapes such bytes in the reason. Raises
        SettingsError if `eo_poison` is not a column of texts.
        """
        letters: list[DeadLetter] = []
        for check in (self._marks, _flaws, self._missing_versions):
            reasons = check(rows)
            bad = [(at, reason) for at, reason in enumerate(reasons) if reason is not None]
            if bad:
                letters += [self.letter(rows, at, reason) for at, reason in bad]
                rows = rows.filter(pa.array([reason is None for reason in reasons]))
        return rows, letters

    def _marks(self, rows: pa.RecordBatch) -> Sequence[str | None]:
        if not self.marked:
            return ()
        marks = rows.column(REASON)
        if not pa.types.is_string(marks.type) and not pa.types.is_large_string(marks.type):
            raise SettingsError(
                f"the column {REASON} holds {marks.type}, not text",
                fix="Set it to the reason as a string, and to null if the row is fine",
            )
        if marks.null_count == len(marks):
            return ()
        reasons: list[bytes | None] = marks.cast(pa.large_binary(), safe=False).to_pylist()
        return [
            None if reason is None else reason.decode("utf-8", "backslashreplace")
            for reason in reasons
        ]

    def _missing_versions(self, rows: pa.RecordBatch) -> Sequence[str | None]:
        if self.version is None or not rows.column(self.version).null_count:
            return ()
        reason = f"version column {self.version!r} is null"
        return [
            reason if null else None for null in rows.column(self.version).is_null().to_pylist()
        ]

    def letter(
        self, rows: pa.RecordBatch, index: int, reason: str, redacted: str | None = None
    ) -> DeadLetter:
        """Return row `index` of `rows`, which the store refuses for `reason`, as a dead letter."""
        row = rows.slice(index, 1)
        origin = [_value(row, name) for name in ORIGIN]
        text = json_row(row.drop_columns([REASON]) if self.marked else row)
        return DeadLetter.from_origin(origin, reason, text, redacted)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSql:
    """The statements on a dead-letter table; `table` is its quoted name, with its schema.

    If `redacted` is True, the table has one more column, REDACTED, for the reason without values.
    """

    table: str
    placeholder: str
    moment: str
    redacted: bool = False

    def create(self) -> str:
        """Return the statement that creates the table if it does not exist."""
        more = f", {REDACTED} text" if self.redacted else ""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table} (query text NOT NULL, query_id text "
            "NOT NULL, run_id text NOT NULL, batch_id bigint NOT NULL, topic text, "
            '"partition" integer, "offset" bigint, reason text NOT NULL, "row" text NOT NULL, '
            f"put_at {self.moment} NOT NULL{more})"
        )

    def insert(self, entry: Entry, letters: Sequence[DeadLetter], now: datetime) -> Many:
        """Return the statement that inserts the dead letters of the batch `entry`."""
        names = (*LETTER, REDACTED) if self.redacted else LETTER
        columns = ", ".join(f'"{name}"' for name in names)
        places = ", ".join([self.placeholder] * len(names))
        batch = (entry.query, entry.query_id, entry.run_id, entry.batch_id)
        put_at = now_text(now)
        rows: list[tuple[Any, ...]] = []
        for letter in letters:
            origin = (letter.topic, letter.partition, letter.offset)
            shown = (letter.shown,) if self.redacted else ()
            rows.append((*batch, *origin, letter.reason, letter.row, put_at, *shown))
        return Many(f"INSERT INTO {self.table} ({columns}) VALUES ({places})", rows)


def _flaws(rows: pa.RecordBatch) -> Sequence[str | None]:
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        # `take`, not `slice`: for a slice of a struct, Arrow checks all rows of the fields.
        return [_flaw(rows.take(pa.array([index]))) for index in range(rows.num_rows)]
    return ()


def _flaw(row: pa.RecordBatch) -> str | None:
    for kind, column in zip(row.schema, row.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return f"the text in column {kind.name!r} is not UTF-8"
    return None


def _value(row: pa.RecordBatch, name: str) -> object:
    if row.schema.get_field_index(name) < 0:
        return None
    try:
        value: object = row.column(name)[0].as_py()
    except UnicodeDecodeError:
        return None
    return value


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)


@dataclass(frozen=True, slots=True)
class DeadLetterLimit:
    """The limit of dead letters in a transaction: a number of rows, or a share of all rows.

    An int is a number, a float a share. Dead letters are for single rows. If most rows of a
    batch are refused, the cause is not in single rows: a column of the table, a producer or a
    setting has changed. Then the query must stop.
    """

    most: int | float  # an int is a number of rows, a float a share

    def __post_init__(self) -> None:
        """Raise SettingsError if `most` is neither a number of rows nor a share."""
        is_share = isinstance(self.most, float) and 0 <= self.most <= 1
        if not is_share and (type(self.most) is not int or self.most < 0):
            raise SettingsError(
                "max_dead_letters must be a number of rows (int, 0 or more) or a share of rows "
                f"(float from 0.0 to 1.0), got {self.most!r}",
                fix="Give one of these",
            )

    def allows(self, dead: int, rows: int) -> bool:
        """Return True if `dead` of `rows` rows may be dead letters.

        All rows may be dead letters only if there are fewer than FEW rows. A limit that is a share
        does not apply to fewer than FEW refused rows.
        """
        if dead >= FEW and dead >= rows:
            return False
        if isinstance(self.most, float):
            return dead < FEW or dead <= self.most * rows
        return dead <= self.most


@dataclass(kw_only=True)
class Refusals:
    """Counts the dead letters of one transaction by reason; `label` names the sink."""

    label: str
    limit: DeadLetterLimit
    count: int = 0
    first: DeadLetter | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, letters: Iterable[DeadLetter]) -> None:
        """Count `letters`.

        If the limit is a number of rows, raises PoisonRowError as soon as the count exceeds it;
        `check` applies a limit that is a share.
        """
        for letter in letters:
            self.first = self.first or letter
            self.count += 1
            if letter.shown in self.reasons or len(self.reasons) < _REASONS:
                self.reasons[letter.shown] += 1
        if isinstance(self.limit.most, int) and self.count > self.limit.most:
            raise self._too_many(None)

    def check(self, rows: int) -> None:
        """Raise PoisonRowError if too many of the transaction's `rows` rows are refused."""
        if not self.limit.allows(self.count, rows):
            raise self._too_many(rows)

    def _too_many(self, rows: int | None) -> PoisonRowError:
        first = self.first
        share = "" if rows is None else f" of {rows}"
        example = "" if first is None else f"; the first: {first.place()[1]}: {first.shown}"
        often = ""
        if self.reasons:
            reason, times = self.reasons.most_common(1)[0]
            often = f"; the most frequent reason ({times} times): {reason}"
        every = rows is not None and self.count >= rows
        return PoisonRowError(
            f"{self.count} rows{share} cannot be written to {self.label}{example}{often}",
            partition=None if first is None else first.place()[0],
            offset=None if first is None else first.offset,
            cause="every row fails, so the rows are not to blame; nothing was written"
            if every
            else f"max_dead_letters={self.limit.most} allows fewer; nothing was written",
            fix="Find out what has changed: the table, the transform or the producers"
            + ("" if every else "; if this number is expected, raise max_dead_letters="),
        )
