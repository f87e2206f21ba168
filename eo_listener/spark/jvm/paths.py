"""Where Hadoop, as the active session is set up, finds a path without a scheme."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from eo_listener.spark.jvm.calls import asking


def qualified(path: str) -> str | None:
    """The path with the scheme that Spark gives it; None where no classic session can be asked.

    A relative one is below the working folder of a local file system, or the user's folder of
    another. Raises JvmError, also for a default file system that does not load.
    """
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001  # getActiveSession is for one thread
    java_session = getattr(session, "_jsparkSession", None)
    if session is None or java_session is None:
        return None
    jvm: Any = session._jvm  # noqa: SLF001  # pyspark offers no public way to its JVM
    with asking(f"find the file system of {path}"):
        settings = java_session.sessionState().newHadoopConf()  # as StreamingQueryManager does
        found = jvm.org.apache.hadoop.fs.Path(path)
        return str(found.getFileSystem(settings).makeQualified(found).toString())
