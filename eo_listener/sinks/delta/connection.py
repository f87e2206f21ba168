"""What a DeltaSink keeps between batches: which table it is, and what its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eo_listener.model.errors import JvmError, RetriableSinkError, SettingsError
from eo_listener.sinks.delta.batch_records import PREFIX, Doubt, QueryState, query_of
from eo_listener.sinks.delta.catalog import SETTINGS, check_table
from eo_listener.sinks.delta.commits import Commit
from eo_listener.sinks.delta.errors import in_doubt
from eo_listener.sinks.delta.ledger import QueryLedger, TableLedger
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.jvm.delta_log import DeltaLogFiles, DeltaTable
from eo_listener.spark.session import delta_lake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from eo_listener.model.ledger import Head
    from eo_listener.model.offsets import TopicPartition
    from eo_listener.sinks.delta.arguments import Target
    from eo_listener.sinks.delta.ledger import States

_KEPT: Final = 64  # commits; most have the heads of one query
_TRIES: Final = 5


class TableLog:
    """The log of one table, as long as it is that table. Its commits are read once."""

    def __init__(self, session: SparkSession, table: DeltaTable) -> None:
        self.table = table
        self.newest = table.version
        self._session = session
        self._files = DeltaLogFiles(session, table.location)
        self._stamp = self._files.stamp(table.version)
        self._commits: dict[int, Commit] = {}
        self._ledger = TableLedger(table.id, self.commit, self._numbers)

    def commit(self, version: int) -> Commit | None:
        """One commit; None where the log does not have it."""
        found = self._commits.get(version)
        if found is None:
            lines = self._files.lines(version)
            if lines is None:
                return None
            found = self._commits[version] = Commit.parse(version, lines)
            if len(self._commits) > _KEPT:
                del self._commits[next(iter(self._commits))]
        return found

    def advance(self) -> bool:
        """Go on to the newest commit; whether it still is the same table, with the same schema."""
        if self._stamp is None or self._files.stamp(self.newest) != self._stamp:
            return False
        while (commit := self.commit(self.newest + 1)) is not None:
            if commit.changes_table:
                return False
            self.newest += 1
            self._stamp = self._files.stamp(self.newest)
        return True

    def states(self) -> States:
        """The states of all queries of the table."""
        return self._ledger.states(self.newest)

    def is_sound(self, commit: Commit) -> bool:
        """Whether a batch was written to the table that it was judged by."""
        return self._ledger.is_sound(commit)

    def _numbers(self) -> dict[str, int]:
        found = delta_log.transactions(self._session, self.table.location, PREFIX)
        return {query: number for app, number in found.items() if (query := query_of(app))}


class Connection:
    """The table of a sink, found by the session that a batch comes with."""

    def __init__(self, target: Target, label: str) -> None:
        self._target = target
        self._label = label
        self._log: TableLog | None = None
        self._checked: str | None = None  # the application that was checked for Delta Lake

    @property
    def reference(self) -> str:
        """The table as Spark's SQL names it, once its log was read."""
        return self._target.reference(None if self._log is None else self._log.table.location)

    def session(self) -> SparkSession:
        """The session where no batch brings one. Raises SettingsError without any."""
        found = delta_log.session_here()
        if found is None:
            raise SettingsError(
                f"{self._label} cannot be read: there is no Spark session here",
                cause="none was made yet, or it is one of Spark Connect, which a DeltaSink cannot "
                "use: it has no JVM to ask",
                fix="Make a classic session first: configure(SparkSession.builder, delta=True)"
                ".getOrCreate()",
            )
        return found

    def log(self, session: SparkSession) -> TableLog | None:
        """The table's log, up to its newest commit; None where there is no table.

        Raises SettingsError, and RetriableSinkError where the storage does not answer.
        """
        self._require_delta(session)
        try:
            if self._log is None or not self._log.advance():
                self._log = self._opened(session)
        except JvmError as error:
            self._log = None
            raise self._unavailable(error) from error
        return self._log

    def ledger(self, session: SparkSession, query: str) -> QueryLedger:
        """What the table's newest version has of `query`.

        Raises SinkError where it cannot be known.
        """
        log = self.log(session)
        if log is None:
            return QueryLedger(table="", version=-1, states={}, number=0, heads={})
        states = self.states(log)
        state = states.get(query, QueryState(0, None))
        if state.doubt is not None:
            raise in_doubt(self._label, self.reference, query, state)
        heads: Mapping[TopicPartition, Head] = {}
        if state.version is not None:
            commit = self.commit(log, state.version)
            if commit is None or commit.record is None:
                gone = state._replace(doubt=Doubt.GONE, doubted=state.version)
                raise in_doubt(self._label, self.reference, query, gone)
            heads = commit.record.ledger.heads
        return QueryLedger(
            table=log.table.id,
            version=log.newest,
            states=states,
            number=state.number,
            heads=heads,
        )

    def commit(self, log: TableLog, version: int) -> Commit | None:
        """One commit; None where the log does not have it. Raises RetriableSinkError."""
        try:
            return log.commit(version)
        except JvmError as error:
            raise self._unavailable(error) from error

    def states(self, log: TableLog) -> States:
        """The states of all queries of the table. Raises RetriableSinkError."""
        try:
            return log.states()
        except JvmError as error:
            raise self._unavailable(error) from error

    def forget(self) -> None:
        """Drop what is kept."""
        self._log = None

    def _opened(self, session: SparkSession) -> TableLog | None:
        location = self.location(session)
        if location is None:
            return None
        for _ in range(_TRIES):
            table = delta_log.table_at(session, location, SETTINGS)
            if table is None:
                return None
            check_table(self._label, self._target.reference(location), table)
            log = TableLog(session, table)
            if log.advance():
                return log
        raise RetriableSinkError(
            f"{self._label} cannot be read", cause="its schema is changed again and again"
        )

    def location(self, session: SparkSession) -> str | None:
        if self._target.path is not None:
            return delta_log.qualified_location(session, self._target.path)
        name = self._target.table or ""
        if not session.catalog.tableExists(name):
            return None
        try:
            return delta_log.location_of(session, name)
        except JvmError as error:
            if error.cause == "AnalysisException":
                raise SettingsError(
                    f"{self._label} is not a Delta table",
                    fix="Name another one, or drop it: the sink makes one",
                ) from error
            raise

    def _require_delta(self, session: SparkSession) -> None:
        context = session.sparkContext
        if self._checked == context.applicationId:
            return
        loaded = delta_log.library_version(session)
        wanted = delta_lake.coordinates(session.version, delta_log.scala_version(session))
        if wanted is None:
            raise SettingsError(
                f"no Delta Lake is known that fits Spark {session.version}",
                fix=f"Use Spark {delta_lake.supported()}",
            )
        if loaded is None or not delta_lake.fits(loaded, session.version):
            there = "no Delta Lake" if loaded is None else f"Delta Lake {loaded}"
            raise SettingsError(
                f"the session has {there}, and a DeltaSink with Spark {session.version} needs "
                f"{wanted}",
                fix="configure(SparkSession.builder, delta=True).getOrCreate(), or "
                f"spark-submit --packages {wanted}",
            )
        self._require_conf(session)
        self._checked = context.applicationId

    def _require_conf(self, session: SparkSession) -> None:
        wanted = {
            delta_lake.EXTENSIONS: delta_lake.EXTENSION,
            delta_lake.SESSION_CATALOG: delta_lake.CATALOG,
        }
        if delta_log.has_extension(session):
            del wanted[delta_lake.EXTENSIONS]
        for key, value in wanted.items():
            if value not in (session.conf.get(key, "") or "").split(","):
                raise SettingsError(
                    f"the session lacks {key}={value}",
                    fix="configure(SparkSession.builder, delta=True).getOrCreate(), or "
                    f"spark-submit --conf {key}={value}",
                )

    def _unavailable(self, error: JvmError) -> RetriableSinkError:
        return RetriableSinkError(f"{self._label} cannot be read", cause=str(error))
