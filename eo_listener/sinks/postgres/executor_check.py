"""Checks that the executors can write to the server, before a batch depends on it."""

from __future__ import annotations

import importlib
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import psycopg

from eo_listener.errors import EoListenerError, RetriableSinkError
from eo_listener.sinks.postgres.errors import lost, reason
from eo_listener.sinks.postgres.write_methods import Choice, Proved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter

NEEDED: Final = ("psycopg", "pyarrow", "eo_listener")

_OURS: Final = "SELECT current_user, current_database(), pg_backend_pid()"
_SAME: Final = """
SELECT current_user, current_database(), EXISTS (
    SELECT FROM pg_stat_activity WHERE pid = %s AND datname = current_database())
"""
_MAY_CREATE: Final = "SELECT has_schema_privilege(%s, 'CREATE')"
_LIMITS: Final = """
WITH taken AS (
    SELECT * FROM pg_stat_activity
    WHERE pid = pg_backend_pid() OR application_name IS DISTINCT FROM %s)
SELECT current_setting('max_connections')::int
         - current_setting('superuser_reserved_connections')::int
         - COALESCE(current_setting('reserved_connections', true)::int, 0)
         - (SELECT count(*) FROM taken WHERE datid IS NOT NULL),
       CASE WHEN r.rolconnlimit >= 0 AND NOT r.rolsuper THEN r.rolconnlimit
         - (SELECT count(*) FROM taken WHERE usename = current_user) END,
       CASE WHEN d.datconnlimit >= 0 AND NOT r.rolsuper THEN d.datconnlimit
         - (SELECT count(*) FROM taken WHERE datname = current_database()) END
FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()
"""
"""A query for the limits on connections; it does not count connections that our tasks keep.

The next tasks use the kept connections, or these end soon.
"""

_RAISE: Final = (
    "max_connections of the server",
    "the CONNECTION LIMIT of the role",
    "the CONNECTION LIMIT of the database",
)


_PYTHON_ERROR: Final = re.compile(
    r"Cannot run program [^\n]*|\[PYTHON_VERSION_MISMATCH\][^\n]*|"
    r"Python in worker has different version[^\n]*|No module named [^\n]*"
)
"""The part of Spark's error text that names an unusable Python."""


def prove(
    session: SparkSession, writer: TransactionWriter, link: Connection, choice: Choice
) -> Proved:
    """Return the obstacles, if any, that keep the executors from writing.

    The function checks that the executors have the modules, that Spark can send them the objects
    that they need, that they can connect to the server with as many connections as tasks run at
    once, and that the role may create a table. It runs one short job, which connects from each
    core. A failure of the job is an obstacle too. Raises psycopg.Error if `link` is lost.
    """
    tasks = session.sparkContext.defaultParallelism
    wanted = tasks if choice.connections is None else min(tasks, choice.connections)
    if not choice.by_partition:  # then apply= runs on the driver
        writer = replace(writer, target=replace(writer.target, apply=None))
    try:
        few = too_few(link.execute(_LIMITS, (writer.application,)).fetchone(), wanted)
        driver = link.execute(_OURS).fetchone()
        row = link.execute(_MAY_CREATE, (writer.access.schema,)).fetchone()
    except psycopg.Error as error:
        if lost(error):
            raise
        return Proved(executors=f"cannot read the privileges of the role: {reason(error)}")
    proved = Proved(executors=few, passing=few is not None)
    if few is None:
        proved = _probe_executors(session, writer, driver, wanted)
    denied = f"the role lacks CREATE on schema {writer.access.schema}, which a staging table needs"
    return proved if row is not None and row[0] else replace(proved, staging=denied)


def too_few(free: tuple[int | None, ...] | None, wanted: int) -> str | None:
    """Return a text that names the limit to raise, or None if `wanted` connections are free.

    `free` has the number of connections that the server, the role and the database each still
    allow, or None for each without a limit. The sink needs one more connection, to find out who
    holds a lock.
    """
    for limit, remaining in zip(_RAISE, free or (), strict=False):
        if remaining is not None and remaining < wanted + 1:
            return (
                f"{wanted} tasks run at the same time, but {max(remaining, 0)} connections are "
                f"free: raise {limit}, or set max_connections= on the sink"
            )
    return None


def reach(writer: TransactionWriter, driver: tuple[str, str, int]) -> Proved:
    """Connect from this process; it is an obstacle if that does not reach the driver's server."""
    try:
        with writer.open() as link:
            row = link.execute(_SAME, (driver[2],)).fetchone()
    except EoListenerError as error:
        return Proved(executors=str(error), passing=isinstance(error, RetriableSinkError))
    except psycopg.Error as error:
        return Proved(executors=reason(error), passing=lost(error))
    if row is None or row[:2] != driver[:2]:
        role, database = (row or ("", ""))[:2]
        return Proved(
            executors=f"executors connect as {role!r} to database {database!r}, the driver as "
            f"{driver[0]!r} to {driver[1]!r}"
        )
    different = "with this dsn executors and driver reach different servers"
    return Proved(executors=None if row[2] else different)


def _probe_executors(
    session: SparkSession, writer: TransactionWriter, driver: Any, tasks: int
) -> Proved:
    """Run the check in as many tasks as run at once, so that probably each executor takes part."""
    from pyspark import cloudpickle  # noqa: PLC0415  # not without Spark

    # As bytes, which even an executor without this package can receive.
    try:
        sent = cloudpickle.dumps((writer, driver))  # type: ignore[no-untyped-call]  # pyspark's own
    except Exception as error:  # noqa: BLE001  # the user's object may raise anything
        return Proved(executors=unsent(writer, error))
    needed = NEEDED

    # Defined here on purpose: cloudpickle sends a nested function as code, so that it runs even
    # if this package is missing.
    def probe(_: Iterable[int]) -> Iterator[tuple[str, bool]]:
        import pickle  # noqa: PLC0415  # it is sent as code

        host = socket.gethostname()
        for name in needed:
            try:
                importlib.import_module(name)
            except ImportError as error:
                yield f"the executors' Python lacks {name} ({host}: {error})", False
                return
        try:
            arguments = pickle.loads(sent)  # noqa: S301  # our own bytes, from above
        except Exception as error:  # noqa: BLE001  # its text may be a secret
            kind, lacks = type(error).__name__, getattr(error, "name", None) or ""
            yield (
                f"executors cannot load dsn= or apply= ({host}: {kind} {lacks}".rstrip() + ")",
                False,
            )
            return
        executor_check = importlib.import_module("eo_listener.sinks.postgres.executor_check")
        proved = executor_check.reach(*arguments)
        if proved.executors is not None:
            yield f"{host}: {proved.executors}", proved.passing

    try:
        numbers = session.sparkContext.parallelize(range(tasks), tasks)
        problems = numbers.mapPartitions(probe).collect()
    except Exception as error:  # noqa: BLE001  # any error: the driver needs no Python there
        failure = f"a job that tests the executors failed: {_spark_error(error)}"
        return Proved(executors=failure, passing=True)
    obstacle, passing = min(problems, key=itemgetter(1), default=(None, False))
    return Proved(executors=obstacle, passing=passing)


def unsent(writer: TransactionWriter, error: Exception) -> str:
    """Describe the part of `writer` that cannot be sent to executors.

    The description does not quote the error, which may hold a secret.
    """
    from pyspark import cloudpickle  # noqa: PLC0415  # not without Spark

    part = "the sink"
    for name, argument in (("dsn=", writer.access.dsn), ("apply=", writer.target.apply)):
        try:
            cloudpickle.dumps(argument)  # type: ignore[no-untyped-call]  # pyspark's own
        except Exception as refusal:  # noqa: BLE001  # as above
            part, error = f"the function of {name}", refusal
            break
    return (
        f"{part} cannot be sent to executors ({type(error).__name__}): it holds an object that "
        "cannot be pickled, such as a client, a connection or a lock; create that object in the "
        "function"
    )


def _spark_error(error: Exception) -> str:
    """Return Spark's error in one line; the job runs the user's code only inside `probe`."""
    text = str(error)
    match = _PYTHON_ERROR.search(text)
    if match is not None:
        return match[0].strip()[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if "most recent failure" in line), "".join(lines[:1]))
    return f"{type(error).__name__}: {first[:300]}"
