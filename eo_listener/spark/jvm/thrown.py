"""What a Java exception is, however pyspark hands it over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from eo_listener.spark.jvm.calls import FAILURES

_DEPTH: Final = 20  # causes of causes; an exception can be among its own


@dataclass(frozen=True, slots=True)
class Thrown:
    """A Java exception: its class and the superclasses of that, and all that it `said`.

    The first line of that, `text`, may quote names, and no value of a row.
    """

    classes: tuple[str, ...]
    said: str = field(repr=False)

    @property
    def text(self) -> str:
        """The first line; the class where it said nothing."""
        lines = self.said.strip().splitlines()
        return lines[0] if lines else self.classes[0]


def thrown(error: BaseException) -> tuple[Thrown, ...]:
    """The Java exception behind `error`, then its cause, the cause's cause and so on.

    Nothing where there is no Java exception, or where the JVM has gone.
    """
    found: list[Thrown] = []
    try:
        # As Py4JJavaError has it, or an exception that pyspark has made of one.
        one = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        while one is not None and len(found) < _DEPTH:
            found.append(Thrown(_classes(one), str(one.getMessage() or "")))
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
