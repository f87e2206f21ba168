"""Repairs a ledger in a Delta table: writes a commit without rows in the same way as a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from eo_listener.errors import SettingsError
from eo_listener.model.ledger import Entry
from eo_listener.sinks.delta.arguments import Target
from eo_listener.sinks.delta.batch_commit import BatchCommit
from eo_listener.sinks.delta.commits import BatchRecord
from eo_listener.sinks.delta.connection import Connection
from eo_listener.sinks.delta.ledger_reader import DeltaLedgerReader
from eo_listener.sinks.ledger_repair import (
    Rename,
    commit_to_table,
    refuse_changed,
    refuse_table_of_its_own,
)
from eo_listener.sinks.ledger_text import LedgerText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.model.ledger import LedgerKey
    from eo_listener.sinks.delta.connection import TableLog
    from eo_listener.sinks.delta.ledger import QueryLedger
    from eo_listener.spark.session.local_spark import LocalSpark


_C = TypeVar("_C")


class DeltaLedgerRepair:
    """The `LedgerRepair` of a Delta table; `place` is its name or its path.

    Raises SettingsError for an invalid place.
    """

    #: The effect on a batch in progress.
    remarks: Final = (
        (
            "the repair takes the number of the query's next commit: Delta refuses a batch that a "
            "driver is writing, and nothing of it is written"
        ),
    )

    def __init__(self, place: str, spark: LocalSpark) -> None:
        self._place = place
        self._spark = spark
        self._target = Target.to_read(place)
        self.reader = DeltaLedgerReader(place, spark.session)
        self._connection = Connection(self._target, self.reader.label)

    def key_of(self, table: str) -> str:
        """Return the table's key. Raises SettingsError if `table` names a different table."""
        refuse_table_of_its_own(self.reader.label, self._place, table)
        return self._place

    def users(self, key: LedgerKey) -> tuple[str, ...]:  # noqa: ARG002  # Delta shows none
        """Return an empty tuple: Delta does not show the writers of a table."""
        return ()

    def check_rename(self, rename: Rename) -> None:
        """Check nothing: the ledger stays in its table."""

    def rename(self, rename: Rename) -> None:
        """Give a ledger to another query, in one commit."""
        self._commit(_RenameCommit, rename)

    def accept(self, sink: str, entry: Entry) -> None:  # noqa: ARG002  # the table has one sink
        """Move a head to the end of an accepted gap, in one commit."""
        self._commit(BatchCommit, entry)

    def close(self) -> None:
        """Forget the table and its log."""
        self.reader.close()
        self._connection.forget()

    def _commit(
        self, kind: Callable[[Target, Connection, str, DataFrame, _C], BatchCommit], change: _C
    ) -> None:
        label = self.reader.label

        def commit() -> None:
            kind(self._target, self._connection, label, self._no_rows(), change).write()

        commit_to_table(label, commit, service="storage")

    def _no_rows(self) -> DataFrame:
        """Return a frame with the table's columns and no rows."""
        session = self._spark.session()
        location = self._connection.location(session)
        if location is None:
            raise SettingsError(f"{self.reader.label} does not exist", fix="Name the table or path")
        return session.read.format("delta").load(location).limit(0)


class _RenameCommit(BatchCommit):
    """Gives the heads of the old name to the new name, in one commit under the old name."""

    def __init__(
        self, target: Target, connection: Connection, label: str, frame: DataFrame, rename: Rename
    ) -> None:
        entry = Entry(
            query=rename.old.query, query_id="", run_id=str(uuid4()), batch_id=0, moves={}
        )
        super().__init__(target, connection, label, frame, entry)
        self._rename = rename
        self._number = 0

    def _checked_ledger(self, log: TableLog | None) -> QueryLedger:
        new = self._connection.ledger_in(log, self._rename.new.query)
        old = self._connection.ledger_in(log, self._rename.old.query)
        refuse_changed(self._label, self._rename, old=old.heads, new=new.heads)
        self._number = new.number
        return old

    def _record(self, ledger: QueryLedger) -> BatchRecord:
        rename = self._rename
        return BatchRecord(
            ledger=LedgerText(rename.old.query, ledger.number + 1, {}),
            table=ledger.table,
            base=ledger.version,
            attempt=uuid4().hex,
            states=ledger.states,
            renamed=LedgerText(rename.new.query, self._number + 1, rename.heads),
        )
