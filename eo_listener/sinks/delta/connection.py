"""The state of a DeltaSink between batches: the identity of its table, and its log."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from eo_listener.errors import JvmError, RetriableSinkError, SettingsError
from eo_listener.sinks.delta.catalog import SETTINGS, check_storage, check_table
from eo_listener.sinks.delta.commits import NO_BATCH, PREFIX, Commit, Doubt, QueryState, query_of
from eo_listener.sinks.delta.errors import another_table, in_doubt, unreadable
from eo_listener.sinks.delta.ledger import QueryLedger, Rollback, TableLedger
from eo_listener.spark.checkpoint.location import shown
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.jvm.calls import scala_version
from eo_listener.spark.jvm.delta_log import DeltaLogFiles, DeltaTable
from eo_listener.spark.jvm.sessions import working_in
from eo_listener.spark.session import delta_lake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from eo_listener.model.ledger import Head
    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.delta.arguments import Target
    from eo_listener.sinks.delta.ledger import States

_KEPT: Final = 64  # commits; most have the heads of one query
_TRIES: Final = 5


class TableLog:
    """The log of one table, until another table replaces it. Each commit is read once.

    Every method raises RetriableSinkError if the storage does not answer, and SettingsError for a
    table feature that the installed Delta Lake lacks.
    """

    def __init__(self, session: SparkSession, table: DeltaTable, label: str) -> None:
        self.table = table
        self.newest = table.version
        self._session = session
        self._label = label
        self._files = DeltaLogFiles(session, table.location)
        self._stamp = self._files.stamp(table.version)
        self._commits: dict[int, Commit] = {}
        self._ledger = TableLedger(table.id, self.commit, self._numbers)

    def commit(self, version: int) -> Commit | None:
        """Return the commit of `version`, or None if the log does not have it."""
        commit = self._commits.get(version)
        if commit is None:
            with _answering(self._label):
                lines = self._files.lines(version)
            if lines is None:
                return None
            commit = self._commits[version] = Commit.parse(version, lines)
            if len(self._commits) > _KEPT:
                # Commits with heads stay: Delta may clean the log while a query writes nothing.
                needed = self._ledger.versions
                spare = [version for version in self._commits if version not in needed]
                for version in spare[: len(self._commits) - _KEPT]:
                    del self._commits[version]
        return commit

    def advance(self) -> bool:
        """Read up to the newest commit; return False if the table or its schema has changed."""
        if self._stamp is None or self._files.stamp(self.newest) != self._stamp:
            return False
        while (commit := self.commit(self.newest + 1)) is not None:
            if commit.changes_table:
                return False
            self.newest += 1
            self._stamp = self._files.stamp(self.newest)
        return True

    def settle(self) -> None:
        """Have the LogStore, if it can, complete a commit that its writer left unfinished."""
        self._files.settle(self.newest + 1)

    def states(self) -> States:
        """Return the states of all queries of the table."""
        return self._ledger.states(self.newest)

    def doubt(self, commit: Commit) -> Doubt | None:
        """Return the reason why the batch of `commit` is in doubt, or None if it is not in doubt.

        See `TableLedger.doubt`.
        """
        return self._ledger.doubt(commit)

    def rollback_of(self, query: str) -> Rollback | None:
        """Return the rollback of a query's heads; None if the last batch is valid or in doubt."""
        return self._ledger.rollback_of(self.newest, query)

    def _numbers(self) -> dict[str, int]:
        with _answering(self._label):
            numbers = delta_log.transactions(self._session, self.table.location, PREFIX)
        return {query: number for app, number in numbers.items() if (query := query_of(app))}


class Connection:
    """Finds the table of a sink in the session of a batch, and reads its log.

    Without `writes` it skips the storage check that only writers need.
    """

    def __init__(self, target: Target, label: str, *, writes: bool = True) -> None:
        self._target = target
        self._label = label
        self._writes = writes
        self._log: TableLog | None = None
        self._table: DeltaTable | None = None  # the table by which the last batch was judged
        self._place: str | None = None
        self._database: str | None = None  # of a name without one; USE does not change it
        self._checked: str | None = None  # the application in which Delta Lake was checked

    @property
    def reference(self) -> str:
        """The table's name for Spark SQL; complete once `location` was called."""
        return self._target.reference(self._place, self._database)

    def session(self) -> SparkSession:
        """Return the session to use outside of a batch. Raises SettingsError if none exists."""
        session = delta_log.session_here()
        if session is None:
            raise SettingsError(
                f"cannot read {self._label}: there is no Spark session here",
                cause="no session was created yet, or it is a Spark Connect session, which a "
                "DeltaSink cannot use: it has no JVM",
                fix="Create a classic session first: configure(SparkSession.builder, "
                "delta=True).getOrCreate()",
            )
        return session

    @contextmanager
    def working_in(self, session: SparkSession) -> Iterator[None]:
        """Make `session` the thread's session, which Delta uses, until the block ends.

        Raises RetriableSinkError.
        """
        with ExitStack() as stack:
            with _answering(self._label):
                stack.enter_context(working_in(session))
            yield

    def log(self, session: SparkSession) -> TableLog | None:
        """Return the current table's log up to its newest commit, or None if there is no table.

        Raises SettingsError, and RetriableSinkError if the storage does not answer.
        """
        location = self.location(session)
        return None if location is None else self.log_at(session, location)

    def judged(self, session: SparkSession) -> TableLog | None:
        """Return the log, up to its newest commit, of the table whose ledger was last read.

        If there is no such table, or it no longer exists, return the current table's log. The sink
        resolves a table's name when it reads the ledger; the batch goes to the table that the name
        means at that moment, even if the name changes later. Raises the errors of `log`.
        """
        if self._table is None:
            return self.log(session)
        with _answering(self._label):
            self._require_delta(session)
        return self.log_at(session, self._table.location) or self.log(session)

    def log_at(
        self, session: SparkSession, location: str, *, settled: bool = False
    ) -> TableLog | None:
        """Return the log of the table at `location`, or None if there is no table.

        The log is read up to its newest commit. With `settled`, the LogStore first completes a
        commit that a writer left unfinished. Raises the errors of `log`.
        """
        log, self._log = self._log, None
        with _answering(self._label):
            if log is not None and log.table.location != location:
                log = None
            if log is not None and settled:
                log.settle()
            if log is None or not log.advance():
                log = self._opened(session, location)
        self._log = log
        return log

    def ledger_in(self, log: TableLog | None, query: str) -> QueryLedger:
        """Return the state of `query` in the newest version of a table.

        Raises SinkError if the state cannot be determined. If another table has replaced the table
        that was read last, the first call after that raises SettingsError.
        """
        before, self._table = self._table, None if log is None else log.table
        if before is not None and (self._table is None or self._table.id != before.id):
            raise another_table(self._label, before, self._table)
        if log is None:
            return QueryLedger(table="", location="", version=-1, states={}, number=0, heads={})
        states = log.states()
        state = states.get(query, NO_BATCH)
        return QueryLedger(
            table=log.table.id,
            location=log.table.location,
            version=log.newest,
            states=states,
            number=state.number,
            heads=self.heads(log, query, state),
        )

    def heads(self, log: TableLog, query: str, state: QueryState) -> Mapping[TopicPartition, Head]:
        """Return the heads of a query in `state`. Raises SinkError if they cannot be determined."""
        if state.doubt is not None:
            raise in_doubt(self._label, self.reference, query, state)
        if state.version is None:
            return {}
        commit = log.commit(state.version)
        if commit is None or commit.record is None:
            gone = state._replace(doubt=Doubt.GONE, doubted=state.version)
            raise in_doubt(self._label, self.reference, query, gone)
        return commit.record.ledger_of(query).heads

    def forget(self) -> None:
        """Drop the log, the table and the database that were read."""
        self._log = self._table = self._database = None

    def _opened(self, session: SparkSession, location: str) -> TableLog | None:
        if self._writes:
            check_storage(self._label, location, delta_log.log_stores(session))
        for _ in range(_TRIES):
            table = delta_log.table_at(session, location, SETTINGS)
            if table is None:
                return None
            check_table(self._label, self.reference, table)
            log = TableLog(session, table, self._label)
            if log.advance():
                return log
        raise RetriableSinkError(f"cannot read {self._label}", cause="its schema keeps changing")

    def location(self, session: SparkSession) -> str | None:
        """Return the location of the sink's table or path, or None if no table has the name.

        Raises SettingsError, and RetriableSinkError if the catalog does not answer.
        """
        with _answering(self._label):
            self._require_delta(session)
            if self._target.path is not None:
                self._place = delta_log.qualified_location(session, self._target.path)
                return self._place
            if self._database is None:
                self._database = delta_log.current_database(session)
            try:
                return delta_log.location_of(session, self.reference)
            except JvmError as error:
                if error.cause == "AnalysisException":
                    raise SettingsError(
                        f"{self._label} is not a Delta table",
                        cause=shown(str(error.__cause__).partition("\n")[0]),
                        fix="Name another table, or drop this one: the sink creates it"
                        if self._writes
                        else "Name the table that was passed to DeltaSink",
                    ) from error
                raise

    def _require_delta(self, session: SparkSession) -> None:
        application = delta_log.application(session)
        if self._checked == application:
            return
        loaded = delta_log.library_version(session)
        fitting = delta_lake.coordinates(session.version, scala_version(session))
        if fitting is None:
            raise SettingsError(
                f"no release of Delta Lake is known to fit Spark {session.version}",
                fix=f"Use Spark {delta_lake.supported()}",
            )
        if loaded is None or not delta_lake.fits(loaded, session.version):
            release = "no Delta Lake" if loaded is None else f"Delta Lake {loaded}"
            raise SettingsError(
                f"the session has {release}, but a DeltaSink with Spark {session.version} needs "
                f"{fitting}",
                fix=self._fix(f"--packages {fitting}", f"spark.jars.packages={fitting}"),
            )
        self._require_conf(session)
        self._checked = application

    def _require_conf(self, session: SparkSession) -> None:
        required = {
            delta_lake.EXTENSIONS: delta_lake.EXTENSION,
            delta_lake.SESSION_CATALOG: delta_lake.CATALOG,
        }
        if delta_log.has_extension(session):
            del required[delta_lake.EXTENSIONS]
        for key, value in required.items():
            if value not in (session.conf.get(key, "") or "").split(","):
                raise SettingsError(
                    f"the session lacks {key}={value}",
                    fix=self._fix(f"--conf {key}={value}", f"{key}={value}"),
                )

    def _fix(self, argument: str, conf: str) -> str:
        if not self._writes:
            return f"--spark-conf {conf}"
        builder = "configure(SparkSession.builder, delta=True).getOrCreate()"
        return f"{builder}, or spark-submit {argument}"


@contextmanager
def _answering(label: str) -> Iterator[None]:
    try:
        yield
    except JvmError as error:
        raise unreadable(error, label) from error
