"""Where Spark is on this machine, found without running any of its code."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def homes() -> tuple[Path, ...]:
    """Return `$SPARK_HOME`, then the Spark inside pyspark: each that there is.

    pyspark itself starts the first of them, whatever is in it.
    """
    named = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    found = [Path(named)] if named else []
    if spec is not None and spec.origin is not None:  # a folder of that name has no origin
        found.append(Path(spec.origin).parent)
    return tuple(found)
