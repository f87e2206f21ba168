"""`eo-listener jar`: prints the path of the jar for Spark's JVM."""

from __future__ import annotations

from eo_listener.spark import shim

EXAMPLE = 'Example: spark-submit --jars "$(eo-listener jar)" job.py'


def jar() -> None:
    """Print the path of the jar for Spark's JVM, and nothing else."""
    print(shim.jar())
