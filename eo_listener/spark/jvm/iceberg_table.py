"""Reads and changes an Iceberg table through Iceberg's own Java classes in Spark's JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import asking, class_of
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataLog, MetadataSearch
from eo_listener.spark.jvm.sessions import candidate_sessions, working_in

MAIN: Final = "main"
_UTIL: Final = "org.apache.iceberg.spark.Spark3Util"
_FILE_UTIL: Final = "org.apache.iceberg.util.ContentFileUtil"
_PARSER: Final = "org.apache.iceberg.TableMetadataParser"
_SNAPSHOT: Final = "org.apache.iceberg.SnapshotParser"
_NO_TABLE: Final = "org.apache.iceberg.exceptions.NoSuchTableException"
_FOREVER: Final = 2**63 - 1
"""A maximum age in ms that no branch reaches; it overrides history.expire.max-ref-age-ms."""
_KEPT: Final = 100
"""The number of a branch's snapshots that do not expire while a batch writes the branch."""


class TableSettings(NamedTuple):
    """The settings of a table.

    `ages` has the maximum age of each branch in ms, or None if unset.
    """

    location: str
    format: int
    snapshots: int
    properties: Mapping[str, str]
    ages: Mapping[str, int | None]


class MainMovedError(Exception):
    """The table has changed since a commit to it was planned; that commit was not made."""


def session(catalog: str, default: Any = None) -> Any:
    """Return the first session of `candidate_sessions` that has the catalog.

    If no session has the catalog, the function returns the first session. Raises JvmError if no
    session exists.
    """
    sessions = candidate_sessions(default)
    with asking("find a session"):
        for spark in sessions:
            if spark.conf.get(f"spark.sql.catalog.{catalog}", None) is not None:
                return spark
    if not sessions:
        raise JvmError(
            "there is no Spark session, which is needed to read an Iceberg table",
            fix="Create a session first: configure(SparkSession.builder...).getOrCreate()",
        )
    return sessions[0]


def runtime_jar(spark: Any) -> str | None:
    """Return the location of Iceberg's classes, "" if unknown, or None if the JVM lacks them.

    Raises JvmError.
    """
    with asking("find Iceberg's classes"):
        if class_of(spark._jvm, _UTIL) is None:  # noqa: SLF001  # pyspark offers no public way to its JVM
            return None
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001  # as above
        source = loader.loadClass(_UTIL).getProtectionDomain().getCodeSource()
        return "" if source is None else str(source.getLocation())


def release(spark: Any) -> tuple[str, bool]:
    """Return Iceberg's release, and whether it can fast-forward a branch. Raises JvmError."""
    with asking("read the release of Iceberg"):
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001  # as above
        methods = loader.loadClass("org.apache.iceberg.ManageSnapshots").getMethods()
        build: Any = class_of(spark._jvm, "org.apache.iceberg.IcebergBuild")  # noqa: SLF001  # as above
        can_move = any(method.getName() == "fastForwardBranch" for method in methods)
        return str(build.version()), can_move


def columns_as_sql(frame: Any) -> str:
    """Return the columns of a DataFrame for a CREATE TABLE statement, all of them nullable."""
    with asking("describe the columns of a batch"):
        return str(frame._jdf.schema().asNullable().toDDL())  # noqa: SLF001  # pyspark has no public way


class IcebergTable:
    """One table in its state at the last call of `refresh`, independent of a catalog's cache.

    `version` is the location of the table's metadata file; each commit writes a new file. Every
    method may raise ThrownError and JvmError.
    """

    def __init__(self, spark: Any, table: Any, address: Any = None) -> None:
        self._jvm = spark._jvm  # noqa: SLF001  # pyspark offers no public way to its JVM
        self._table = table
        self._address = address
        self.refresh()

    @classmethod
    def load(cls, spark: Any, name: str, catalog: str) -> IcebergTable | None:
        """Load the table `name`, quoted as in Spark SQL; return None if Spark lacks `catalog`.

        The method bypasses the session's cache, which keeps a table that was dropped or recreated.
        It also does not add the table to that cache: otherwise the session would keep reading this
        state after others have written to the table.
        """
        # Spark finds a catalog by the settings of the thread's session, not by those of `spark`.
        with working_in(spark), java_errors():
            util = class_of(spark._jvm, _UTIL)  # noqa: SLF001  # as above
            if util is None:
                raise JvmError("Spark's JVM lacks Iceberg's classes")
            address = util.catalogAndIdentifier(spark._jsparkSession, name)  # noqa: SLF001  # as above
            if address.catalog().name() != catalog:
                return None  # Spark takes an unknown first part for a namespace
            address.catalog().invalidateTable(address.identifier())
            loaded = util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001  # as above
            address.catalog().invalidateTable(address.identifier())
            return cls(spark, loaded, address)

    def uncache(self) -> None:
        """Have the session read the table from the catalog at its next use.

        The session's cache keeps a table for 30 s after its last use, even if others have written
        to the table.
        """
        if self._address is not None:
            with java_errors():
                self._address.catalog().invalidateTable(self._address.identifier())

    def refresh(self) -> None:
        """Read the table's metadata from the catalog."""
        with java_errors():
            metadata = self._table.operations().refresh()
            if metadata is None:  # the table is gone; only the first call of Java throws
                raise ThrownError((_NO_TABLE,), "Table does not exist")
            self._metadata = metadata
            self.version = str(self._metadata.metadataFileLocation())
            current = self._metadata.currentSnapshot()
            self.main: int | None = None if current is None else current.snapshotId()
            refs = dict(self._metadata.refs())
            self.branches: Mapping[str, int] = {
                str(name): ref.snapshotId() for name, ref in refs.items() if ref.isBranch()
            }
            self._log = MetadataLog(self._metadata, self._read_metadata)

    @property
    def name(self) -> str:
        """The name of the table in its catalog."""
        with java_errors():
            return str(self._table.name())

    @property
    def uuid(self) -> str:
        """The id of this table; a new table with the same name has a different id."""
        with java_errors():
            return str(self._metadata.uuid())

    def settings(self) -> TableSettings:
        """Return the settings of the table."""
        with java_errors():
            refs = dict(self._metadata.refs())
            return TableSettings(
                location=str(self._metadata.location()),
                format=int(self._metadata.formatVersion()),
                snapshots=int(self._metadata.snapshots().size()),
                properties=dict(self._metadata.properties()),
                ages={name: ref.maxRefAgeMs() for name, ref in refs.items() if ref.isBranch()},
            )

    def uuids(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of `names` that are of type uuid, which Spark reads as strings."""
        with java_errors():
            schema = self._metadata.schema()
            fields = {name: schema.findField(name) for name in names}
            return tuple(
                name for name, field in fields.items() if field and str(field.type()) == "uuid"
            )

    def has_property(self, name: str) -> bool:
        """Return True if the property `name` of the table is true; a missing property is false."""
        with java_errors():
            return bool(self._metadata.propertyAsBoolean(name, False))

    def snapshot(self, snapshot_id: int) -> str | None:
        """Return a snapshot as JSON, or None if it has expired."""
        with java_errors():
            return self._as_json(self._metadata.snapshot(snapshot_id))

    def expired(self, snapshot_id: int, *, child: int, committed: int) -> str | None:
        """Return an expired snapshot from older metadata files, or None if no file has it.

        `child` is a snapshot that was made from the expired snapshot, and `committed` the time of
        `child` in ms.
        """
        with java_errors():
            return self._as_json(self._log.snapshot(snapshot_id, child=child, committed=committed))

    def was_main(self, snapshot_id: int, *, committed: int) -> bool | None:
        """Return True if main was ever at the snapshot, whose time is `committed` (in ms).

        Returns None if the table's history does not reach back to that time, because its older part
        has expired.
        """
        with java_errors():
            history = self._metadata.snapshotLog()
            if any(entry.snapshotId() == snapshot_id for entry in history):
                return True
            began = None if history.isEmpty() else history.get(0).timestampMillis()
            return False if began is not None and began <= committed else None

    @property
    def search(self) -> MetadataSearch:
        """The extent of the searches that `expired` has made since the last `refresh`."""
        return self._log.search

    def added_since(self, snapshot_id: int) -> Sequence[int]:
        """Return the ids of the snapshots added after this snapshot, whether on a branch or not."""
        with java_errors():
            snapshots, added = self._metadata.snapshots(), []
            for index in reversed(range(snapshots.size())):
                added_id = snapshots.get(index).snapshotId()
                if added_id == snapshot_id:
                    break
                added.append(added_id)
            return added

    def is_readable(self, snapshot_id: int) -> bool:
        """Return True if a snapshot's manifest list exists."""
        try:
            with java_errors():
                self._metadata.snapshot(snapshot_id).allManifests(self._table.io())
        except ThrownError as error:
            if error.is_any("NotFoundException"):
                return False
            raise
        return True

    def create_branch(
        self, name: str, *, at: int | None, summary: Mapping[str, str] | None = None
    ) -> int:
        """Create a branch at main's snapshot, and return the id of the branch's snapshot.

        `at` is the snapshot at which main must be, or None if there must be no main. With
        `summary`, the method adds an empty snapshot with this summary to the branch. Raises
        MainMovedError if main is at a different snapshot.
        """
        with java_errors():
            transaction = self._begin(at)
            if summary is not None:
                append = transaction.table().newFastAppend().toBranch(name)
                _summarized(append, summary).commit()
            refs = transaction.manageSnapshots()
            if summary is None:
                refs = refs.createBranch(name) if at is None else refs.createBranch(name, at)
            refs = refs.setMinSnapshotsToKeep(name, _KEPT)
            refs.setMaxRefAgeMs(name, _FOREVER).commit()
            self._commit(transaction)
            return int(transaction.currentMetadata().ref(name).snapshotId())

    def drop_branch(self, name: str) -> None:
        """Drop a branch."""
        with java_errors():
            self._table.manageSnapshots().removeBranch(name).commit()

    def publish(
        self,
        branch: str,
        *,
        at: int | None,
        drop: Iterable[str] = (),
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Move main forward to `branch`, and drop the branches `drop`, in one commit.

        `at` is the snapshot at which main must be. With `summary`, the method first adds an empty
        snapshot with this summary to the branch, in the same commit. Raises MainMovedError if the
        table has changed since `refresh`.
        """
        with java_errors():
            transaction = self._begin(at)
            if summary is not None:
                append = transaction.table().newFastAppend().toBranch(branch)
                _summarized(append, summary).commit()
            self._forward(transaction, branch, drop, has_main=at is not None)

    def publish_again(
        self,
        staged: str,
        branch: str,
        *,
        at: int,
        drop: Iterable[str],
        summary: Mapping[str, str],
        root: Mapping[str, str] | None = None,
    ) -> None:
        """Repeat the changes of the branch `staged` after main, and move main to the result.

        In one commit the method creates `branch` at main's snapshot, which must be `at`; repeats
        the changes of the head of `staged` in `branch`; moves main to `branch`; and drops `staged`
        and the branches `drop`. With `root`, `branch` begins with an empty snapshot that has `root`
        in its summary. Raises MainMovedError.
        """
        with java_errors():
            changed = self._changed(self.branches[staged])
            transaction = self._begin(at)
            refs = transaction.manageSnapshots().createBranch(branch, at)
            refs.setMaxRefAgeMs(branch, _FOREVER).commit()
            if root is not None:
                append = transaction.table().newFastAppend().toBranch(branch)
                _summarized(append, root).commit()
            again = changed.repeated(transaction.table(), at).toBranch(branch)
            _summarized(again, summary).commit()
            self._forward(transaction, branch, [*drop, staged], has_main=True)

    def holds(self, snapshot_id: int, moves: Iterable[int]) -> bool:
        """Return True if the changes of a snapshot can be repeated after the snapshots `moves`.

        The snapshots `moves` must have changed no rows. Returns False if they removed a file that
        the changes need.
        """
        with java_errors():
            util, moved = class_of(self._jvm, _FILE_UTIL), tuple(moves)
            if any(self._metadata.snapshot(move) is None for move in moved):
                return False  # the snapshot has expired since its summary was read
            return holds(self._changed(snapshot_id), map(self._changed, moved), util)

    def _changed(self, snapshot_id: int) -> ChangedFiles:
        return ChangedFiles.from_snapshot(self._metadata.snapshot(snapshot_id), self._table.io())

    def _begin(self, at: int | None) -> Any:
        """Begin a transaction on the metadata of the last `refresh`; main must be at `at`."""
        transaction = self._table.newTransaction()
        start = transaction.startMetadata()
        current = start.metadataFileLocation() == self._metadata.metadataFileLocation()
        # A transaction begins with two refreshes, and another thread's refresh can come between
        # them.
        if not current or not start.equals(transaction.currentMetadata()) or self.main != at:
            raise MainMovedError
        return transaction

    def _forward(
        self, transaction: Any, branch: str, drop: Iterable[str], *, has_main: bool
    ) -> None:
        refs = transaction.manageSnapshots()
        if has_main:
            refs = refs.fastForwardBranch(MAIN, branch)
        else:
            refs = refs.createBranch(MAIN, transaction.table().snapshot(branch).snapshotId())
        for name in drop:
            refs = refs.removeBranch(name)
        refs.setMinSnapshotsToKeep(branch, 1).commit()
        self._commit(transaction)

    def _commit(self, transaction: Any) -> None:
        """Commit the transaction, once: Iceberg refuses it if the table has changed since.

        `commitTransaction` would retry. If its first commit succeeded and the answer was lost, it
        would take that commit for another writer's, and delete files of the committed snapshots.
        """
        operations = transaction.underlyingOps()
        operations.commit(transaction.startMetadata(), transaction.currentMetadata())

    def _read_metadata(self, file: str) -> Any:
        """Return the metadata of a file, or None if it was deleted."""
        try:
            with java_errors():
                parser: Any = class_of(self._jvm, _PARSER)
                return parser.read(self._table.io(), file)
        except ThrownError as error:
            if error.is_any("NotFoundException"):
                return None
            raise

    def _as_json(self, snapshot: Any) -> str | None:
        if snapshot is None:
            return None
        parser: Any = class_of(self._jvm, _SNAPSHOT)
        return str(parser.toJson(snapshot))


def _summarized(append: Any, summary: Mapping[str, str]) -> Any:
    for key, value in summary.items():
        append.set(key, value)
    return append


class ChangedFiles(NamedTuple):
    """The files that one snapshot changed, as Java objects. Files in `..._deletes` delete rows."""

    added: tuple[Any, ...]
    removed: tuple[Any, ...]
    added_deletes: tuple[Any, ...]
    removed_deletes: tuple[Any, ...]

    @classmethod
    def from_snapshot(cls, snapshot: Any, io: Any) -> ChangedFiles:
        """Read the changed files from the manifests of a snapshot."""
        return cls(
            _all(snapshot.addedDataFiles(io)),
            _all(snapshot.removedDataFiles(io)),
            _all(snapshot.addedDeleteFiles(io)),
            _all(snapshot.removedDeleteFiles(io)),
        )

    def gone(self) -> frozenset[str]:
        """Return the locations of the files that the changes remove from the table."""
        return frozenset(str(file.location()) for file in (*self.removed, *self.removed_deletes))

    def needed(self, util: Any) -> frozenset[str] | None:
        """Return the locations of files that the table must have for these changes to be valid.

        Returns None if a delete file does not name the data file whose rows it deletes. `util` is
        the Java class that reads that name.
        """
        locations = [util.referencedDataFileLocation(file) for file in self.added_deletes]
        if None in locations:
            return None
        return self.gone() | {str(file) for file in locations}

    @property
    def with_deletes(self) -> bool:
        """True if some of the files delete rows."""
        return bool(self.added_deletes or self.removed_deletes)

    def repeated(self, table: Any, behind: int) -> Any:
        """Return an uncommitted operation on `table` that repeats the changes.

        The caller must know that no snapshot up to the id `behind` has made the changes invalid:
        Iceberg does not check these snapshots.
        """
        if self.with_deletes:
            # Without `validateFromSnapshot`, a replaced deletion vector is a conflict, and so is an
            # expired history.
            delta = table.newRowDelta().validateFromSnapshot(behind)
            _for_each(delta.removeRows, self.removed)
            _for_each(delta.addRows, self.added)
            _for_each(delta.addDeletes, self.added_deletes)
            _for_each(delta.removeDeletes, self.removed_deletes)
            return delta
        if self.removed:
            overwrite = table.newOverwrite()
            _for_each(overwrite.deleteFile, self.removed)
            _for_each(overwrite.addFile, self.added)
            return overwrite
        append = table.newFastAppend()
        _for_each(append.appendFile, self.added)
        return append


def holds(changed: ChangedFiles, moves: Iterable[ChangedFiles], util: Any) -> bool:
    """Return True if the changes `changed` can be repeated after `moves`, which changed no row."""
    needed = changed.needed(util)
    changes = bool(changed.removed) or changed.with_deletes
    for move in moves:
        gone = move.gone()
        if gone if needed is None else not needed.isdisjoint(gone):
            return False
        if changes and move.added_deletes:
            return False  # a file has one deletion vector, which others may have rewritten
    return True


def _for_each(change: Callable[[Any], object], files: Iterable[Any]) -> None:
    for file in files:
        change(file)


def _all(iterable: Any) -> tuple[Any, ...]:
    files, iterator = [], iterable.iterator()
    while iterator.hasNext():
        files.append(iterator.next())
    return tuple(files)
