"""Turns every failure of a call into the JVM into a JvmError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

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
