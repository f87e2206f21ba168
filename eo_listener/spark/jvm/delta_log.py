"""Reads a Delta table in Spark's JVM: its location, its identity and its log files.

The module uses only classes of Delta that are the same from 3.3 to 4.1. It reads a commit from the
commit's file, through Hadoop's file systems, as Spark itself does. Delta itself would first build
its snapshot again after each commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from eo_listener.spark.jvm.calls import asking, class_of
from eo_listener.spark.jvm.sessions import candidate_sessions, working_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

_CHUNK: Final = 1 << 18  # bytes read at a time; most commits are smaller
_ABSENT: Final = "java.io.FileNotFoundException"

_LOG: Final = "_delta_log"
_PATH: Final = "org.apache.hadoop.fs.Path"
_BYTES: Final = "org.apache.commons.io.IOUtils"
_LOGS: Final = "org.apache.spark.sql.delta.DeltaLog"

LOG_STORE: Final = "delta.logStore."
"""The prefix of settings that name a LogStore; a setting may have `spark.` before the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """A Delta table at version `version`; newer versions may have existed already.

    `settings` has the values of those requested table properties that are set.
    """

    location: str
    id: str
    version: int
    settings: Mapping[str, str]


def session_here() -> SparkSession | None:
    """Return this thread's classic session, or else another classic session, or None."""
    sessions = candidate_sessions()
    return next((s for s in sessions if getattr(s, "_jsparkSession", None) is not None), None)


def clone_session(session: SparkSession, settings: Mapping[str, str]) -> Any:
    """Return a Java clone of `session`, with `settings` added.

    The function makes no pyspark session for the clone: otherwise `RDD.toDF` would create all
    frames of the process in the clone. Raises JvmError.
    """
    with asking("clone its session"):
        clone = _java(session).cloneSession()
        for name, value in settings.items():
            clone.conf().set(name, value)
        return clone


def application(session: SparkSession) -> str:
    """Return the id of the session's Spark application. Raises JvmError."""
    with asking("read the name of its application"):
        return session.sparkContext.applicationId


def log_stores(session: SparkSession) -> dict[str, str]:
    """Return the application's LogStores, each by the setting that names it. Raises JvmError."""
    with asking("read its settings"):
        settings = session.sparkContext.getConf().getAll()  # Delta ignores a session's settings
        return {
            name: value
            for name, value in settings
            if name.removeprefix("spark.").startswith(LOG_STORE)
        }


def current_database(session: SparkSession) -> str:
    """Return the session's database for table names without a database. Raises JvmError."""
    with asking("name its current database"):
        return session.catalog.currentDatabase()


def library_version(session: SparkSession) -> str | None:
    """Return the version of the JVM's Delta Lake, or None if the JVM has no Delta Lake.

    Raises JvmError.
    """
    with asking("find Delta Lake"):
        package = class_of(_jvm(session), "io.delta.package")
        return None if package is None else str(package.VERSION())


def has_extension(session: SparkSession) -> bool:
    """Return True if the session parses SQL with Delta's parser.

    False may also mean that the session has another extension after Delta's. Raises JvmError.
    """
    with asking("find its SQL parser"):
        parser = _java(session).sessionState().sqlParser().getClass().getName()
        return str(parser).startswith("io.delta.")


def qualified_location(session: SparkSession, path: str) -> str:
    """Return `path` with the scheme that Spark adds to it. Raises JvmError."""
    with asking("find the file system of a table"):
        location = _class(session, _PATH)(path)
        files = location.getFileSystem(_hadoop(session))
        return str(files.makeQualified(location).toString())


def other_files(session: SparkSession, location: str) -> list[str]:
    """Return the names in a table's folder, except the folder of the log. Raises JvmError."""
    with asking("list the folder of a table"):
        folder = _class(session, _PATH)(location)
        files = folder.getFileSystem(_hadoop(session))
        if not files.exists(folder):
            return []
        names = [str(status.getPath().getName()) for status in files.listStatus(folder)]
        return [name for name in names if not name.startswith((_LOG, "."))]


def location_of(session: SparkSession, name: str) -> str | None:
    """Return the location of the Delta table `name`, or None if no table has that name.

    Raises JvmError.
    """
    with working_in(session), asking("find a Delta table by its name"):
        if not session.catalog.tableExists(name):
            return None
        tables = _jvm(session).io.delta.tables.DeltaTable
        location = tables.forName(_java(session), name).deltaLog().dataPath()
        return str(location.toString())


def table_at(session: SparkSession, location: str, settings: Iterable[str]) -> DeltaTable | None:
    """Return the current Delta table at `location`, or None if there is no table.

    Raises JvmError.
    """
    with working_in(session), asking("read a Delta table"):
        snapshot = _snapshot(session, location, fresh=True)
        version = int(snapshot.version())
        if version < 0:
            return None
        metadata = snapshot.metadata()
        properties = metadata.configuration()
        return DeltaTable(
            location=location,
            id=str(metadata.id()),
            version=version,
            settings={
                name: str(properties.apply(name)) for name in settings if properties.contains(name)
            },
        )


def properties_of(session: SparkSession, location: str) -> tuple[str, Mapping[str, str]]:
    """Return a table's protocol, as Delta describes it, and its properties. Raises JvmError."""
    with working_in(session), asking("read the properties of a Delta table"):
        snapshot = _snapshot(session, location, fresh=False)
        properties = snapshot.metadata().configuration()
        names = str(properties.keys().mkString("\n")).split("\n")
        return str(snapshot.protocol().simpleString()), {
            name: str(properties.apply(name)) for name in names if name
        }


def transactions(session: SparkSession, location: str, prefix: str) -> dict[str, int]:
    """Return the table's `txnVersion` for each `txnAppId` that begins with `prefix`.

    Delta must build the table's state for this, which takes seconds for a large table. Raises
    JvmError.
    """
    with working_in(session), asking("read the application ids of a Delta table"):
        versions = _snapshot(session, location, fresh=False).transactions()
        names = str(versions.keys().mkString("\n")).split("\n")
        return {name: int(versions.apply(name)) for name in names if name.startswith(prefix)}


class DeltaLogFiles:
    """Reads the files of a Delta table's log. Every method may raise JvmError."""

    def __init__(self, session: SparkSession, location: str) -> None:
        with asking("find the log of a Delta table"):
            self._session = session
            self._paths, self._bytes = _class(session, _PATH), _class(session, _BYTES)
            self._folder = self._paths(location, _LOG)
            self._files = self._folder.getFileSystem(_hadoop(session))

    def settle(self, version: int) -> None:
        """Have Delta list the log's files, beginning with `version`, as Delta does before a write.

        A LogStore with its own table (S3DynamoDBLogStore) first records a commit in that table. If
        the writer could not create the commit's file, the LogStore creates the file when it lists
        the log.
        """
        with working_in(self._session), asking("list the log of a Delta table"):
            log = _class(self._session, _LOGS).forTable(
                _java(self._session), self._folder.getParent()
            )
            log.store().listFrom(self._path(version), _hadoop(self._session))

    def stamp(self, version: int) -> str | None:
        """Return a value that changes when a commit's file is replaced.

        Returns None if the file does not exist.
        """
        with asking("find a commit of a Delta table"):
            status = self._status(version)
            return None if status is None else f"{status.getModificationTime()} {status.getLen()}"

    def lines(self, version: int) -> Iterator[str] | None:
        """Return the actions of a commit, each as a JSON text, or None if there is no such commit.

        The iterator reads only the part of the file that the caller needs.
        """
        with asking("find a commit of a Delta table"):
            status = self._status(version)
            return None if status is None else self._lines(status.getPath(), status.getLen())

    def _status(self, version: int) -> Any | None:
        path = self._path(version)
        if not self._files.exists(path):  # usually it does not exist, and an exception takes longer
            return None
        try:
            return self._files.getFileStatus(path)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _ABSENT:
                return None
            raise

    def _path(self, version: int) -> Any:
        return self._paths(self._folder, f"{version:020d}.json")

    def _lines(self, path: Any, length: int) -> Iterator[str]:
        rest, at = b"", 0
        while at < length:
            size = min(_CHUNK, length - at)
            rest += self._read(path, at, size)
            at += size
            *whole, rest = rest.split(b"\n")
            yield from (line.decode() for line in whole if line)
        if rest:
            yield rest.decode()

    def _read(self, path: Any, at: int, size: int) -> bytes:
        reading = asking("read a commit of a Delta table")
        with reading, closing(self._files.open(path)) as stream:
            stream.seek(at)
            return bytes(self._bytes.toByteArray(stream, size))


def _snapshot(session: SparkSession, location: str, *, fresh: bool) -> Any:
    logs = _class(session, _LOGS)
    if fresh:  # the cache may have a table that was dropped meanwhile
        logs.invalidateCache(_java(session), _class(session, _PATH)(location))
    return logs.forTable(_java(session), location).unsafeVolatileSnapshot()


def _class(session: SparkSession, name: str) -> Any:
    """Return a Java class in one round trip; `jvm.org...` needs a round trip for each package."""
    return class_of(_jvm(session), name)


def _jvm(session: SparkSession) -> Any:
    return session._jvm  # noqa: SLF001  # pyspark offers no public way to its JVM


def _java(session: SparkSession) -> Any:
    return session._jsparkSession  # noqa: SLF001  # nor to the session in it


def _hadoop(session: SparkSession) -> Any:
    return _java(session).sessionState().newHadoopConf()
