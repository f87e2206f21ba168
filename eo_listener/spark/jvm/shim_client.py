"""Calls the shim's methods in Spark's JVM, over py4j."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.running_jvm import require_shim_class


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
