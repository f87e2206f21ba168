"""Knows the Iceberg runtime that fits each Spark version, and the extension for Iceberg's SQL."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = "iceberg-spark-runtime"
RELEASE: Final = "1.11.0"
EXTENSION: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_SCALAS: Final = {"3.5": ("2.12", "2.13"), "4.0": ("2.13",), "4.1": ("2.13",)}
"""The Scala versions for which RELEASE has a runtime, by minor version of Spark."""
_MADE_FOR: Final = re.compile(rf"{NAME}-(\d+\.\d+)_(\d+\.\d+)")


def coordinates(spark: str, scala: str) -> str | None:
    """Return the Maven coordinates of the runtime for `spark`, or None if no runtime fits.

    `spark` is a version such as `4.0.0`, `scala` one such as `2.13`.
    """
    minor = _minor(spark)
    if scala not in _SCALAS.get(minor, ()):
        return None
    return f"org.apache.iceberg:{NAME}-{minor}_{scala}:{RELEASE}"


def misfit(runtime: str, spark: str, scala: str) -> str | None:
    """Return the versions for which `runtime` is made, or None if it fits this Spark.

    `runtime` is the name of a file, or Maven coordinates. Also returns None if `runtime` does not
    show the versions.
    """
    match = _MADE_FOR.search(runtime)
    if match is None or match.groups() == (_minor(spark), scala):
        return None
    return f"Spark {match[1]} with Scala {match[2]}"


def supported() -> str:
    """Return a text with the versions of Spark for which there is a runtime."""
    *earlier, last = _SCALAS
    return f"{', '.join(earlier)} and {last}"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
