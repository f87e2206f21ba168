"""The user's own statements, on the branch of a batch: what they may name, and how they run."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.sinks.iceberg.errors import first_line, is_temporary
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.sinks.kept_rows import named
from eo_listener.sinks.target import STAGED
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.model.ledger import Entry
    from eo_listener.sinks.target import Function, Target
    from eo_listener.spark.jvm.iceberg_table import IcebergTable

TABLE: Final = "{table}"
"""What stands in a statement for the table: the branch of the batch."""

_WRITES: Final = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*"
    r"(?:MERGE\s+INTO|INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|DELETE\s+FROM|UPDATE)\s+\{table\}",
    re.IGNORECASE | re.DOTALL,
)


def check_statement(text: str) -> None:
    """Raise SettingsError for a statement that does not write to the branch."""
    if _WRITES.match(text) is None:
        raise SettingsError(
            f"a statement of apply= does not begin with what it does to {TABLE}: "
            f"{' '.join(text.split())[:60]!r}",
            cause=f"{TABLE} stands for the branch of the batch; by its own name the table would be "
            "changed at once, and again when the batch is repeated",
            fix=f"Write MERGE INTO {TABLE}, INSERT INTO {TABLE}, UPDATE {TABLE} or "
            f"DELETE FROM {TABLE}, one statement each",
        )


@dataclass(frozen=True, slots=True)
class Branch:
    """What a function of `apply=` works with: the query's session, and the table's name in it.

    `table` is the branch of the batch, for statements and for `DataFrame.writeTo`.
    """

    session: Any
    table: str
    _uncache: Callable[[], None]

    def sql(self, text: str) -> None:
        """Run a statement on the branch. Raises SettingsError and SinkError."""
        check_statement(text)
        try:
            self._uncache()  # what the statement before has written is to be seen
            with java_errors():
                self.session.sql(text.replace(TABLE, self.table)).collect()
        except ThrownError as error:
            if is_temporary(error):
                raise
            raise SinkError(
                f"a statement of apply= failed: {first_line(error.text)}",
                fix=f"Nothing was written. Correct it; the rows of the batch are in {STAGED}",
            ) from error


class _Turns:
    """Who has a session to itself: a transform may return frames of one that all queries share."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads: dict[int, int] = {}  # by the session's number in the JVM

    @contextmanager
    def of(self, session: Any) -> Iterator[None]:
        """Have the session, once no other thread has it. Raises SettingsError."""
        with java_errors():
            number = session._jsparkSession.hashCode()  # noqa: SLF001  # pyspark has no name for it
        here = threading.get_ident()
        with self._changed:
            if self._threads.get(number) == here:
                raise SettingsError(
                    "a batch is written by apply= while another one is, in the same session",
                    cause=f"both have their rows in the view {STAGED}",
                    fix="Write the one after the other",
                )
            self._changed.wait_for(lambda: number not in self._threads)
            self._threads[number] = here
        try:
            yield
        finally:
            with self._changed:
                del self._threads[number]
                self._changed.notify_all()


_TURNS: Final = _Turns()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSql:
    """Runs the statements, or the function, on the rows of one batch."""

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
        """Compute the rows of `frame` once, and name them: statements read them several times.

        One batch at a time in a session, since the name is the same for all. Raises SettingsError.
        """
        with _TURNS.of(frame.sparkSession), named(frame, STAGED) as rows:
            yield cls(name=name, table=table, rows=rows, target=target, entry=entry)

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:  # noqa: ARG002  # it is published with them
        """Return how many rows the statements were given. Raises as they do."""
        batch = Branch(self.rows.sparkSession, self.name.branch(branch), self.table.uncache)
        function: Function | None = self.target.apply if callable(self.target.apply) else None
        if function is not None:
            function(batch, self.entry)
        for statement in self.target.statements:
            batch.sql(statement)
        with java_errors():
            return self.rows.count()

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # whichever they are
        """They might: what the statements do with rows is not known."""
        return True
