"""Checks and runs the user's own statements on the branch of a batch."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eo_listener.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.iceberg.errors import first_line, is_temporary
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.sinks.kept_rows import keep_as_view
from eo_listener.sinks.target import STAGED
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.model.ledger import Entry
    from eo_listener.sinks.target import Target
    from eo_listener.spark.jvm.iceberg_table import IcebergTable

TABLE: Final = "{table}"
"""The placeholder for the table in a statement, which becomes the branch of the batch."""

_WRITES: Final = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*"
    r"(?:MERGE\s+INTO|INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|DELETE\s+FROM|UPDATE)\s+\{table\}",
    re.IGNORECASE | re.DOTALL,
)


def check_statement(text: str) -> None:
    """Raise SettingsError if a statement does not begin with a change to {table}."""
    if _WRITES.match(text) is None:
        raise SettingsError(
            f"a statement of apply= does not begin with its change to {TABLE}: "
            f"{' '.join(text.split())[:60]!r}",
            cause=f"{TABLE} stands for the branch of the batch. Under its own name the table "
            "would be changed immediately, and again when the batch is repeated",
            fix=f"Write MERGE INTO {TABLE}, INSERT INTO {TABLE}, UPDATE {TABLE} or DELETE "
            f"FROM {TABLE}, each as a separate statement",
        )


@dataclass(frozen=True, slots=True)
class Branch:
    """The argument of a function of `apply=`: the query's session, and the table's name in it.

    `table` is the branch of the batch, for statements and for `DataFrame.writeTo`.
    """

    session: Any
    table: str
    _uncache: Callable[[], None]

    def sql(self, text: str) -> None:
        """Run a statement on the branch. Raises SettingsError and SinkError."""
        check_statement(text)
        try:
            self._uncache()  # so that it sees the rows of the previous statement
            with java_errors():
                self.session.sql(text.replace(TABLE, self.table)).collect()
        except ThrownError as error:
            if is_temporary(error):
                raise
            raise SinkError(
                f"a statement of apply= failed: {first_line(error.text)}",
                fix=f"Nothing was written. Correct it; the rows of the batch are in {STAGED}",
            ) from error


class _Turn(NamedTuple):
    """The thread that uses a session, and its batch."""

    thread: int
    batch: str


class Turns:
    """Lets one thread at a time use a session, which the frames of several queries may share.

    A thread waits at most `longest` seconds for one batch of another thread to release the session.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._changed = threading.Condition()
        self._turns: dict[int, _Turn] = {}  # by the session's number in the JVM

    @contextmanager
    def take(self, session: Any, entry: Entry) -> Iterator[None]:
        """Wait for the session, and reserve it until the block ends.

        Raises SettingsError if this thread already uses the session, and RetriableSinkError if
        another batch does not end.
        """
        with java_errors():
            number = session._jsparkSession.hashCode()  # noqa: SLF001  # pyspark lacks this
        here = threading.get_ident()
        with self._changed:
            while (holder := self._turns.get(number)) is not None:
                if holder.thread == here:
                    raise SettingsError(
                        "another batch is already running apply= in this session",
                        cause=f"both would have their rows in the view {STAGED}",
                        fix="Write one batch after the other",
                    )
                if not self._changed.wait_for(
                    lambda: self._turns.get(number) is not holder, self._longest
                ):
                    raise self._held_up(holder, entry)
            self._turns[number] = _Turn(here, f"batch {entry.batch_id} of {entry.query!r}")
        try:
            yield
        finally:
            with self._changed:
                del self._turns[number]
                self._changed.notify_all()

    def _held_up(self, holder: _Turn, entry: Entry) -> RetriableSinkError:
        return RetriableSinkError(
            f"batch {entry.batch_id} of {entry.query!r} has waited {self._longest:g} s for "
            f"{holder.batch}, which is running apply= in the same session",
            cause=f"both have their rows in the view {STAGED}, so they are written one at a "
            "time, and that batch does not end",
            fix="Find out what that query waits for. To let neither wait for the other, return "
            "DataFrames of the batch's own session in the transform: df.sparkSession",
        )


_TURNS: Final = Turns(longest=600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSql:
    """Runs the statements or the function of `apply=` on the rows of one batch."""

    name: TableName
    table: IcebergTable
    rows: DataFrame
    target: Target
    entry: Entry
    appends = False

    @classmethod
    @contextmanager
    def staged(
        cls, name: TableName, table: IcebergTable, frame: DataFrame, *, target: Target, entry: Entry
    ) -> Iterator[UserSql]:
        """Compute the rows of `frame` once, as a view: the statements may read the view repeatedly.

        Only one batch at a time runs in a session, since all batches use the same view name. Raises
        the errors of `Turns.take`.
        """
        with _TURNS.take(frame.sparkSession, entry), keep_as_view(frame, STAGED) as rows:
            yield cls(name=name, table=table, rows=rows, target=target, entry=entry)

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:  # noqa: ARG002  # the publication adds it
        """Run the statements or the function; return how many rows are in the view.

        Raises the errors of the statements or the function.
        """
        batch = Branch(self.rows.sparkSession, self.name.branch(branch), self.table.uncache)
        if callable(self.target.apply):
            self.target.apply(batch, self.entry)
        for statement in self.target.statements:
            batch.sql(statement)
        with java_errors():
            return self.rows.count()

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # same for all
        """Return True: the result of the statements may depend on any rows of the table."""
        return True
