"""What a Java exception is, however pyspark hands it over."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from eo_listener.spark.jvm.calls import FAILURES

_DEPTH: Final = 20  # causes of causes; an exception can be among its own


class Thrown(NamedTuple):
    """A Java exception: its class and the superclasses of that, and the first line of its text.

    The line may quote names, and no value of a row.
    """

    classes: tuple[str, ...]
    text: str


def thrown(error: BaseException) -> tuple[Thrown, ...]:
    """The Java exception behind `error`, then its cause, the cause's cause and so on.

    Nothing where there is no Java exception, or where the JVM has gone.
    """
    found: list[Thrown] = []
    try:
        # As Py4JJavaError has it, or an exception that pyspark has made of one.
        one = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        while one is not None and len(found) < _DEPTH:
            found.append(Thrown(_classes(one), _first_line(one)))
            one = one.getCause()
    except FAILURES:
        return ()
    return tuple(found)


def _classes(one: Any) -> tuple[str, ...]:
    kind = one.getClass()
    names = [str(kind.getName())]
    while names[-1] != "java.lang.Throwable":
        kind = kind.getSuperclass()
        names.append(str(kind.getName()))
    return tuple(names)


def _first_line(one: Any) -> str:
    lines = str(one.getMessage() or "").strip().splitlines()
    return lines[0] if lines else str(one.getClass().getName())
