"""Calls the running JVM and the shim in it, and turns each failure into a JvmError."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.redaction import without_secrets

# If the JVM has ended, py4j raises Py4JNetworkError, its plain parent, or the socket's
# ConnectionRefusedError, depending on the state of the connection. pyspark turns some Java
# exceptions, by their class, into its own exceptions.
FAILURES = (Py4JError, PySparkException, OSError)


@contextmanager
def asking(task: str) -> Iterator[None]:
    """Raise JvmError for any error of py4j in the block. `task` is a phrase such as "read ..."."""
    try:
        yield
    except Py4JJavaError as error:
        raise JvmError(
            f"Spark's JVM failed to {task}", cause=_cause_of(error)
        ) from without_secrets(error)
    except PySparkException as error:
        raise JvmError(
            f"Spark's JVM failed to {task}", cause=type(error).__name__
        ) from without_secrets(error)
    except FAILURES as error:
        raise JvmError(
            f"cannot reach Spark's JVM to {task}",
            cause=f"it may have ended ({type(error).__name__})",
        ) from error


def call(target: Any, method: str) -> Any:
    """Call a method without arguments; return its result, or None if `target` lacks the method."""
    try:
        return getattr(target, method)()
    except (Py4JJavaError, Py4JNetworkError):
        raise
    except Py4JError:  # py4j finds no such method
        return None


def _cause_of(error: Py4JJavaError) -> str:
    """Return the class of the Java exception, or its message if the shim wrote the message.

    Any other message may quote an option's value.
    """
    try:
        thrown = error.java_exception
        name = str(thrown.getClass().getName())
        return str(thrown.getMessage()) if name == "java.lang.IllegalStateException" else name
    except FAILURES:
        return "the JVM ended before eo_listener could read the reason"


_DEPTH: Final = 20  # causes of causes; an exception can be among its own causes


@dataclass(frozen=True, slots=True)
class Thrown:
    """A Java exception: its class with all superclasses, and its complete `message`.

    `text`, the first line of the message, may quote names, but no value of a row.
    """

    classes: tuple[str, ...]
    message: str = field(repr=False)

    @property
    def text(self) -> str:
        """The first line of the message, or the class if the message is empty."""
        lines = self.message.strip().splitlines()
        return lines[0] if lines else self.classes[0]


def thrown(error: BaseException) -> tuple[Thrown, ...]:
    """Return the Java exception that `error` wraps, its cause, that cause's own cause, and so on.

    The result is empty if `error` wraps no Java exception, or if the JVM has gone.
    """
    chain: list[Thrown] = []
    try:
        # An attribute of Py4JJavaError, or of an exception that pyspark has made from it.
        exception = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        while exception is not None and len(chain) < _DEPTH:
            chain.append(Thrown(_classes(exception), str(exception.getMessage() or "")))
            exception = exception.getCause()
    except FAILURES:
        return ()
    return tuple(chain)


def _classes(exception: Any) -> tuple[str, ...]:
    kind = exception.getClass()
    names = [str(kind.getName())]
    while names[-1] != "java.lang.Throwable":
        kind = kind.getSuperclass()
        names.append(str(kind.getName()))
    return tuple(names)


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


class JvmShimClient:
    """The `ShimClient` of classic PySpark: calls the shim in the JVM of this process.

    One call is one round trip. py4j waits for the answer without limit, so a caller that must not
    wait needs a separate thread.
    """

    def __init__(self) -> None:
        self._shim_method: tuple[object, Any] | None = None  # a JVM, and the method in it

    def call(self, name: str, argument: str) -> str:
        """Call the shim's function `name` with `argument`, and return its answer.

        `argument` and the answer are JSON texts. Raises JvmError.
        """
        jvm = SparkContext._jvm  # noqa: SLF001 - no public way to it
        if jvm is None:
            raise JvmError(
                f"this process has no JVM to run the shim's call {name!r}",
                cause="no session was started, or it is a Spark Connect session",
                fix="Use a classic session in the driver's process",
            )
        # Looking up a method costs two round trips, so the method is kept as long as its JVM
        # exists.
        if self._shim_method is None or self._shim_method[0] is not jvm:
            with asking("load the shim's ShimCalls class"):
                self._shim_method = jvm, require_shim_class(jvm, "requests.ShimCalls").call
        with asking(f"run the shim's call {name!r}"):
            return str(self._shim_method[1](name, argument))
