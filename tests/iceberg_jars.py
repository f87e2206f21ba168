"""Iceberg's runtime for the Spark under test, and the driver of the database for its catalog."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pyspark

from tests import artifacts

VERSION: Final = os.environ.get("EO_TEST_ICEBERG", "1.11.0")
IS_OLD: Final = VERSION.startswith("1.10.")
_SCALA: Final = {"3.5": "2.12", "4.0": "2.13", "4.1": "2.13"}  # by Spark; there is none for 4.2
_CHECKSUMS: Final = {
    ("4.0", "1.11.0"): {
        "iceberg-spark-runtime-4.0_2.13-1.11.0.jar": (
            "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc"
        ),
        "sqlite-jdbc-3.50.3.0.jar": (
            "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08"
        ),
    }
}


def jars() -> tuple[Path, ...]:
    """Return the jars, fetched when they are not there; none where there is no runtime."""
    line = ".".join(pyspark.__version__.split(".")[:2])
    if line not in _SCALA:
        return ()
    runtime = f"org.apache.iceberg:iceberg-spark-runtime-{line}_{_SCALA[line]}:{VERSION}"
    wanted = [
        artifacts.Artifact.of(coordinates, transitive=False)
        for coordinates in (runtime, "org.xerial:sqlite-jdbc:3.50.3.0")
    ]
    folder = artifacts.cache_folder() / "tests" / f"iceberg-{line}-{VERSION}"
    return artifacts.fetch(wanted, folder, checksums=_CHECKSUMS.get((line, VERSION)))
