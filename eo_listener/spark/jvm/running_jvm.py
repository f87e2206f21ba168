"""Finds the classes that a running JVM can load, and the file system of a path in its session."""

from __future__ import annotations

import os
from typing import Any, Final

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import asking

SHIM_ROOT: Final = "io.github.eolistener"
SHIM_PACKAGE: Final = f"{SHIM_ROOT}.requests"
SHIM: Final = f"{SHIM_PACKAGE}.SourceInspector"
KAFKA: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
DELTA: Final = "io.delta.tables.DeltaTable"
ICEBERG: Final = "org.apache.iceberg.spark.SparkCatalog"


def is_running() -> bool:
    """Return True if this process has a JVM, from a session (even if stopped) or spark-submit."""
    return SparkContext._gateway is not None or under_submit()  # noqa: SLF001 - no public way to it


def under_submit() -> bool:
    """Return True if spark-submit started this process, after its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def class_of(jvm: Any, name: str) -> Any | None:
    """Return a class by its full name, in one round trip, or None if the JVM lacks it.

    Raises the errors of py4j.
    """
    jvm_class = getattr(jvm, name)
    # py4j takes a class that the JVM does not have for a package.
    return jvm_class if isinstance(jvm_class, JavaClass) else None


def require_shim_class(jvm: Any, name: str) -> Any:
    """Return a class of the shim, by its name below SHIM_ROOT.

    Raises JvmError if the shim is not loaded, and the errors of py4j.
    """
    shim_class = class_of(jvm, f"{SHIM_ROOT}.{name}")
    if shim_class is None:
        raise JvmError(
            "Spark's JVM has no shim, or an older version of it",
            cause="its jar was not passed to Spark",
            fix="Pass the jar that `eo-listener jar` names to Spark, with spark.jars or --jars",
        )
    return shim_class


def scala_version(spark: Any) -> str:
    """Return the Scala version of a session's JVM, such as `2.13`. Raises JvmError."""
    with asking("read its Scala version"):
        whole = str(spark._jvm.scala.util.Properties.versionNumberString())  # noqa: SLF001  # pyspark offers no public way to its JVM
    return ".".join(whole.split(".")[:2])


def has_class(name: str) -> bool:
    """Return True if the running JVM finds a class through the class loader that has `spark.jars`.

    Raises JvmError.
    """
    with asking("list its classes"):
        # Connects to the JVM of spark-submit, unless there is a connection.
        SparkContext._ensure_initialized()  # noqa: SLF001 - no public way to it
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - no public way to it
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        try:
            loader.loadClass(name)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.lang.ClassNotFoundException":
                return False
            raise
        return True


def qualified(path: str) -> str | None:
    """Return `path` with the scheme that Spark adds, or None if there is no classic session.

    A relative path is below the working folder on a local file system, and below the user's folder
    on any other. Raises JvmError, also for a default file system that does not load.
    """
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001  # getActiveSession is for one thread
    java_session = getattr(session, "_jsparkSession", None)
    if session is None or java_session is None:
        return None
    jvm: Any = session._jvm  # noqa: SLF001  # pyspark offers no public way to its JVM
    with asking(f"find the file system of {path}"):
        settings = java_session.sessionState().newHadoopConf()  # as StreamingQueryManager does
        location = jvm.org.apache.hadoop.fs.Path(path)
        return str(location.getFileSystem(settings).makeQualified(location).toString())
