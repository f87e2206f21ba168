"""What a Java exception is, however pyspark hands it over."""

from __future__ import annotations

from typing import Any, Final

from eo_listener.spark.jvm.calls import FAILURES

_DEPTH: Final = 6  # causes of causes


def thrown_classes(error: BaseException) -> tuple[str, ...]:
    """The classes of the Java exception behind `error`, its own and its causes', outermost first.

    Of each its superclasses follow it, but for `Throwable` and above. Nothing where there is no
    Java exception, or where the JVM has gone.
    """
    names: list[str] = []
    try:
        thrown = _origin(error)
        for _ in range(_DEPTH):
            if thrown is None:
                break
            kind = thrown.getClass()
            while (name := str(kind.getName())) != "java.lang.Throwable":
                names.append(name)
                kind = kind.getSuperclass()
            thrown = thrown.getCause()
    except FAILURES:
        return ()
    return tuple(names)


def first_line(error: BaseException) -> str:
    """The first line of what it says; it may quote names, and no value of a row."""
    try:
        text = str(getattr(_origin(error), "getMessage", lambda: "")() or "") or str(error)
    except FAILURES:
        text = type(error).__name__
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def _origin(error: BaseException) -> Any:
    """As Py4JJavaError has it, or an exception that pyspark has made of one."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)
