"""What the executors need to write into the server, found out before a batch depends on it."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from eo_listener.errors import EoListenerError
from eo_listener.sinks.postgres.ways import Proved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eo_listener.sinks.postgres.connection import Link
    from eo_listener.sinks.postgres.writing import Writer

NEEDED: Final = ("psycopg", "pyarrow", "eo_listener")

_OURS: Final = "SELECT current_user, current_database(), pg_backend_pid()"
_SAME: Final = """
SELECT current_user, current_database(), EXISTS (
    SELECT FROM pg_stat_activity WHERE pid = %s AND datname = current_database())
"""
_MAY_CREATE: Final = "SELECT has_schema_privilege(%s, 'CREATE')"
_LIMITS: Final = """
SELECT current_setting('max_connections')::int
         - current_setting('superuser_reserved_connections')::int
         - COALESCE(current_setting('reserved_connections', true)::int, 0)
         - (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL),
       CASE WHEN r.rolconnlimit >= 0 AND NOT r.rolsuper THEN r.rolconnlimit
         - (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user) END,
       CASE WHEN d.datconnlimit >= 0 AND NOT r.rolsuper THEN d.datconnlimit
         - (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) END
FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()
"""
_RAISE: Final = (
    "max_connections of the server",
    "the CONNECTION LIMIT of the role",
    "the CONNECTION LIMIT of the database",
)


def prove(session: SparkSession, writer: Writer, link: Link, most: int | None) -> Proved:
    """Find out what keeps the executors from writing: modules, a connection of their own, as many
    as tasks run at once (`most` of them, if that is fewer), and the right to make a table.

    Runs one short job, with a connection from each core. Raises psycopg.Error for `link`.
    """
    tasks = session.sparkContext.defaultParallelism
    wanted = tasks if most is None else min(tasks, most)
    against = too_few(link.execute(_LIMITS).fetchone(), wanted)
    if against is None:
        ours = link.execute(_OURS).fetchone()
        against = _asked(session, writer, ours, wanted)
    row = link.execute(_MAY_CREATE, (writer.access.schema,)).fetchone()
    may = row is not None and row[0]
    denied = (
        f"the role has no CREATE on the schema {writer.access.schema}, which a staging table needs"
    )
    return Proved(executors=against, staging=None if may else denied)


def too_few(free: tuple[int | None, ...] | None, wanted: int) -> str | None:
    """Say what to raise where fewer connections are free than are wanted.

    `free` are those that server, role and database leave, None where one has no limit. One more is
    wanted, by which to find out who holds a lock.
    """
    for what, left in zip(_RAISE, free or (), strict=False):
        if left is not None and left < wanted + 1:
            return (
                f"{wanted} tasks run at once, and {max(left, 0)} connections are free: raise "
                f"{what}, or give the sink max_connections="
            )
    return None


def reach(writer: Writer, ours: tuple[str, str, int]) -> str | None:
    """Connect from here; say what is wrong, None if it is where `ours` has come from."""
    try:
        with writer.open() as link:
            row = link.execute(_SAME, (ours[2],)).fetchone()
    except EoListenerError as error:
        return str(error)
    if row is None or row[:2] != ours[:2]:
        role, database = (row or ("", ""))[:2]
        return f"they come in as {role!r} to {database!r}, the driver as {ours[0]!r} to {ours[1]!r}"
    return None if row[2] else "they reach another server by the dsn than the driver does"


def check_modules(session: SparkSession, needed: tuple[str, ...] = NEEDED) -> str | None:
    """Say what an executor cannot import of what its tasks will need."""
    return _first(session, needed, None, session.sparkContext.defaultParallelism)


def _asked(
    session: SparkSession, writer: Writer, ours: tuple[str, str, int] | None, tasks: int
) -> str | None:
    plain = replace(writer, target=replace(writer.target, apply=None))  # it need not travel
    return _first(session, NEEDED, None if ours is None else (plain, ours), tasks)


def _first(
    session: SparkSession,
    needed: tuple[str, ...],
    given: tuple[Writer, tuple[str, str, int]] | None,
    tasks: int,
) -> str | None:
    """Ask as many tasks as run at once, so that every executor is likely to be asked."""
    from pyspark.serializers import CloudPickleSerializer  # noqa: PLC0415  # not without Spark

    # As bytes: they are only understood where the package is.
    sent = None if given is None else CloudPickleSerializer().dumps(given)  # type: ignore[no-untyped-call]  # pyspark's own

    # Defined in here on purpose: what has no name in a module is sent as code, so that it runs
    # where this package is missing.
    def look(_: Iterable[int]) -> Iterator[str]:
        import pickle  # noqa: PLC0415  # it is sent as code

        host = socket.gethostname()
        for name in needed:
            try:
                importlib.import_module(name)
            except ImportError as error:
                yield f"their Python lacks {name} ({host}: {error})"
                return
        if sent is not None:
            proving = importlib.import_module("eo_listener.sinks.postgres.proving")
            problem = proving.reach(*pickle.loads(sent))  # noqa: S301  # our own, of a line above
            if problem is not None:
                yield f"{host}: {problem}"

    found = session.sparkContext.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    return found[0] if found else None
