"""Checks that the database file can be used, and opens a connection to it.

A new file gets a write-ahead log (WAL): readers and the writer do not wait for each other, and
COMMIT syncs the file once. WAL needs memory that processes share, so it works on one machine only.
On a network file system, neither WAL nor the locks of a rollback journal can be trusted: the sink
refuses such a path. A file that has a rollback journal keeps it. FULL (in WAL) and EXTRA (with a
journal) are the settings of `synchronous` under which a confirmed COMMIT survives a power failure.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import psutil

from eo_listener.errors import SettingsError
from eo_listener.sinks.sqlite.errors import explain, translated

_LOG_KEPT: Final = 64 << 20
"""The size in bytes to which SQLite truncates the log before it overwrites it from the start."""
_REMOTE: Final = re.compile(
    r"nfs4?|cifs|smb3|smbfs|afpfs|9p|afs|ceph|lustre|beegfs|gpfs|orangefs|fuse\.(sshfs|ceph-fuse|"
    r"glusterfs|juicefs|s3fs|mount-s3|goofys|gcsfuse|blobfuse2?|rclone)"
)


class Connection(sqlite3.Connection):
    """A connection that can be reset after the user's function has used it.

    An open cursor would hold a lock, and a row or text factory would change all answers.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()
        super().__init__(*args, **options)

    def cursor(self, *args: Any, **options: Any) -> Any:
        """Create a cursor, and remember it for `put_back`."""
        cursor = super().cursor(*args, **options)
        self._cursors.add(cursor)
        return cursor

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Run a statement on a cursor from `cursor`: sqlite3's own `execute` does not call it."""
        cursor: sqlite3.Cursor = self.cursor().execute(*args)
        return cursor

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        """Run a statement for each row of parameters, on a new cursor."""
        cursor: sqlite3.Cursor = self.cursor().executemany(*args)
        return cursor

    def put_back(self) -> None:
        """Close all cursors, and reset the row and text factories."""
        for cursor in list(self._cursors):
            cursor.close()
        self.row_factory, self.text_factory = None, str


def absolute(path: str | Path) -> Path:
    """Return the absolute path; raise SettingsError if it begins with an unknown user's home."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise SettingsError(f"{path}: no such home folder", fix="Write the absolute path") from None


class DatabaseFile:
    """A database file, and at most one connection to it, opened when it is needed.

    A forked child gets a connection of its own: an SQLite connection must not cross a fork.
    """

    def __init__(
        self, path: Path, *, create: bool, busy_timeout: float, foreign_keys: bool
    ) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self._foreign_keys = foreign_keys
        self._create = create
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self._inherited: list[Connection] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the connection: Spark Connect sends a sink to its server."""
        return {**self.__dict__, "_connection": None, "_inherited": []}

    def connection(self) -> Connection:
        """Return the connection; open it first if necessary.

        Raises SettingsError for an unusable path, SinkError if the file cannot be opened.
        """
        if self._connection is not None and self._pid != os.getpid():
            self._inherited.append(self._connection)  # closing it would drop the parent's locks
            self._connection = None
        if self._connection is None:
            self._connection = self._open()
            self._pid = os.getpid()
        return self._connection

    def translated(self) -> AbstractContextManager[None]:
        """Raise SinkError for an error of SQLite in the block; nothing was written."""
        return translated(self.path, waited=self.busy_timeout)

    def close(self) -> None:
        """Close the connection; SQLite rolls back an open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()

    def _open(self) -> Connection:
        is_new = self.check_path()
        mode = "rwc" if self._create else "rw"
        connection = None
        try:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                uri=True,
                factory=Connection,
                timeout=self.busy_timeout,
                isolation_level=None,  # we send BEGIN and COMMIT ourselves
                check_same_thread=False,  # foreachBatch runs on any thread, one at a time
            )
            _set_journal(connection, is_new=is_new)
            # Later, within a transaction and so in apply=, this setting cannot be changed.
            keys = "ON" if self._foreign_keys else "OFF"
            connection.execute(f"PRAGMA foreign_keys = {keys}")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise explain(error, self.path, waited=self.busy_timeout) from error
        return connection

    def check_path(self) -> bool:
        """Return True if the file does not exist yet; raise SettingsError if it cannot be used."""
        if self.path.is_dir():
            raise SettingsError(f"{self.path} is a folder", fix="Name a file in it")
        if not self.path.parent.is_dir():
            raise SettingsError(
                f"the folder {self.path.parent} does not exist",
                fix=f"mkdir -p {self.path.parent}, or name another path",
            )
        is_new = not self.path.exists()
        if is_new and not self._create:
            raise SettingsError(
                f"{self.path} does not exist, and create=False",
                fix="Create it, or remove create=False",
            )
        kind = _file_system(self.path.parent)
        if _REMOTE.fullmatch(kind):
            raise SettingsError(
                f"{self.path} is on a network file system ({kind})",
                cause="SQLite's locks and log are not safe there",
                fix="Put it on a local disk, or use PostgresSink",
            )
        return is_new


def _set_journal(connection: sqlite3.Connection, *, is_new: bool) -> None:
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if is_new:
        (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain sync only reaches the disk's cache
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_KEPT}")
    connection.execute(f"PRAGMA synchronous = {'FULL' if journal == 'wal' else 'EXTRA'}")


def _file_system(folder: Path) -> str:
    """Return the type of a folder's file system, or an empty string if it is unknown."""
    inside = [
        (len(part.mountpoint), part.fstype)
        for part in psutil.disk_partitions(all=True)
        if folder.resolve().is_relative_to(part.mountpoint)
    ]
    return max(inside, default=(0, ""))[1]
