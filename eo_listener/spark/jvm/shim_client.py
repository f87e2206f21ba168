"""Calls of the shim's methods in Spark's JVM, over py4j."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.running_jvm import SHIM_PACKAGE, class_of


class JvmShimClient:
    """The `ShimClient` of classic PySpark: a method of the shim in the JVM of this process.

    One call is one round trip. py4j waits for the answer without limit: whoever must not be held
    up calls from a thread of its own.
    """

    def __init__(self) -> None:
        self._found: tuple[object, Any] | None = None  # a JVM, and the method in it

    def call(self, what: str, argument: str) -> str:
        """Do `what` with `argument`, as JSON texts. Raises JvmError."""
        jvm = SparkContext._jvm  # noqa: SLF001 - no public way to it
        if jvm is None:
            raise JvmError(
                f"this process has no JVM to run the shim's call {what!r}",
                cause="no session was started, or it is a Spark Connect session",
                fix="Use a classic session in the driver's process",
            )
        # Looking a method up costs two round trips, so it is kept while its JVM is there.
        if self._found is None or self._found[0] is not jvm:
            self._found = jvm, _method(jvm)
        with asking(f"run the shim's call {what!r}"):
            return str(self._found[1](what, argument))


def _method(jvm: Any) -> Any:
    with asking("load the shim's ShimCalls class"):
        found = class_of(jvm, f"{SHIM_PACKAGE}.ShimCalls")
        if found is not None:
            return found.call
    raise JvmError(
        "Spark's JVM has no shim, or an older version of it",
        cause="its jar was not passed to Spark",
        fix="Pass the jar that `eo-listener jar` names to Spark, with spark.jars or --jars",
    )
