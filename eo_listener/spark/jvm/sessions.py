"""Chooses the session for a thread's work, if a process has several sessions.

pyspark's active session does not belong to a thread: it is the session that last made a DataFrame
from Python rows, in any thread, or else the first session of the process. Spark's JVM has an active
session for each thread, but `createDataFrame` of another session changes it too. Spark finds tables
of Iceberg and Delta through the JVM's active session.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import FAILURES, asking, class_of

_NAMES: Final = ("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.SparkSession")
"""The names of Spark's session class. Spark 4 has the first class, Spark 3.5 only the second."""

_BETWEEN: Final = "\x01"


class _Thread(threading.local):
    session: Any = None


_thread = _Thread()


@contextmanager
def working_in(session: Any) -> Iterator[None]:
    """Make `session` the thread's session in the block, both in Python and in Spark's JVM.

    Has no effect if `session` is not a classic session. Raises JvmError.
    """
    java = getattr(session, "_jsparkSession", None)
    if java is None:
        yield
        return
    sessions = _sessions(session)
    with asking("choose a session"):
        active = sessions.getActiveSession()
        before = active.get() if active.isDefined() else None
        sessions.setActiveSession(java)
    outer, _thread.session = _thread.session, session
    try:
        yield
    finally:
        _thread.session = outer
        try:
            if before is None:
                sessions.clearActiveSession()
            else:
                sessions.setActiveSession(before)
        except FAILURES:  # the JVM has ended; an earlier error is more important
            pass


def candidate_sessions(default: Any = None) -> tuple[Any, ...]:
    """Return the sessions that a call without a session may use, the best first.

    They are the session of `working_in`, pyspark's active session, `default`, and the first session
    of the process. Raises JvmError.
    """
    with asking("find a session"):
        active = SparkSession.getActiveSession()
    first = SparkSession._instantiatedSession  # noqa: SLF001  # getActiveSession is for one thread
    return tuple(
        session for session in (_thread.session, active, default, first) if session is not None
    )


def session_apart(session: Any, prefix: str) -> Any:
    """Return a new session with the settings of `session` whose names begin with `prefix`.

    The new session has its own catalogs, and its settings affect no other session. Raises JvmError.
    """
    with asking("make a session"):
        apart = session.newSession()
        conf = session._jsparkSession.sessionState().conf()  # noqa: SLF001  # pyspark 3.5 cannot list settings
        for setting in str(conf.getAllConfs().mkString(_BETWEEN)).split(_BETWEEN):
            name, _, value = setting.partition(" -> ")
            if name.startswith(prefix):
                apart.conf.set(name, value)
    return apart


def _sessions(session: Any) -> Any:
    with asking("find the class of its session"):
        for name in _NAMES:
            session_class = class_of(session._jvm, name)  # noqa: SLF001  # pyspark offers no public way to its JVM
            if session_class is not None:
                return session_class
    raise JvmError(
        f"Spark's JVM has none of the classes {', '.join(_NAMES)}",
        cause="this Spark is newer than the versions that this package supports",
        fix="Use a version of Spark that eo-listener preflight accepts",
    )
