"""DeltaSink, the sink for a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eo_listener.errors import SettingsError
from eo_listener.model.argument_checks import choice
from eo_listener.model.check_finding import CheckFinding, checked
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.ledger_place import ITS_CATALOG, LedgerPlace
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.delta import check
from eo_listener.sinks.delta.arguments import Target, column_names
from eo_listener.sinks.delta.batch_commit import BatchCommit
from eo_listener.sinks.delta.connection import Connection
from eo_listener.sinks.target import Mode
from eo_listener.spark.checkpoint.location import shown


class DeltaSink:
    """Writes batches into a Delta table, each batch once, in the commit that moves its ledger.

    Give either `table`, a name as in SQL (`lake.delays`), or `path`, the table's location. `mode`
    is "append", or "upsert" with `keys`: a MERGE of the newest row of each key (by `version_column`
    if there is one, otherwise by offset). If `delete_when`, an SQL condition on the batch's rows,
    is true for the newest row of a key, the MERGE deletes the row in the table. The sink creates a
    missing table with the columns of the first batch, unless `create` is False; `partition_by`
    names partition columns for it. With `new_columns` the sink adds missing columns to the table;
    otherwise it refuses them.

    There are no dead letters: a second table would need a separate transaction. Raises
    SettingsError for invalid arguments.
    """

    per_partition = False

    def __init__(
        self,
        table: str | None = None,
        *,
        path: str | None = None,
        mode: str = "append",
        keys: str | Sequence[str] = (),
        version_column: str | None = None,
        delete_when: str | None = None,
        partition_by: str | Sequence[str] = (),
        new_columns: bool = False,
        create: bool = True,
        dead_letters: str | None = None,
    ) -> None:
        if dead_letters is not None:
            raise SettingsError(
                "a DeltaSink has no dead letters",
                cause="Delta commits one table at a time, so rows and dead letters could not "
                "be committed together",
                fix="Remove dead_letters=, and filter such rows in the transform; you can "
                "write them to a separate sink",
            )
        self._target = Target(
            table=table,
            path=path,
            mode=choice(Mode, "mode", mode),
            keys=column_names("keys", keys),
            version_column=version_column,
            delete_when=delete_when,
            partition_by=column_names("partition_by", partition_by),
            new_columns=new_columns,
            create=create,
        )
        self._connection = Connection(self._target, self.label)

    @property
    def label(self) -> str:
        """The table or the path, for display."""
        return self._target.label

    @property
    def key(self) -> str:
        """The table's name or path, as the user wrote it.

        That is enough as a key, because the ledger is in the table itself.
        """
        return self._target.table or self._target.path or ""

    @property
    def ledger_place(self) -> LedgerPlace:
        """The address of the ledger, which is in the table itself."""
        return LedgerPlace(address=f"delta:{shown(self.key)}", note=ITS_CATALOG)

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Return the heads of `query`; empty if there is no table yet."""
        log = self._connection.log(self._connection.session())
        return self._connection.ledger_in(log, query).heads

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Return this table's heads, under any query name, whose last move was by `query_id`."""
        log = self._connection.log(self._connection.session())
        states = {} if log is None else log.states()
        ledgers = {}
        for query, state in states.items():
            if state.doubt is not None:  # under its own name the sink refuses such a query
                continue
            heads = self._connection.ledger_in(log, query).heads
            moved = {tp: head for tp, head in heads.items() if head.query_id == query_id}
            if moved:
                ledgers[LedgerKey(self.key, query)] = moved
        return ledgers

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:  # noqa: ARG002  # the protocol's
        """Write the rows of `frame`, and the ledger entry `entry`, in one commit."""
        session = frame.sparkSession
        if getattr(session, "_jsparkSession", None) is None:
            raise SettingsError(
                f"cannot write to {self.label} from Spark Connect",
                cause="Spark's JVM reads the log of a Delta table, and runs in another process",
                fix="Run the query in classic PySpark",
            )
        with self._connection.working_in(session):  # the transform may have used another session
            return BatchCommit(self._target, self._connection, self.label, frame, entry).write()

    def check(self, query: str | None = None) -> list[CheckFinding]:
        """Return findings about obstacles and risks for the batches; change nothing.

        The method checks Delta Lake, the table, and the ledger of `query`.
        """
        return list(checked(shown(self.label), check.findings(self._target, query)))

    def close(self) -> None:
        """Forget the table and its log."""
        self._connection.forget()
