"""Knows the release of Delta Lake that fits each Spark version, and the settings for it."""

from __future__ import annotations

from typing import Final

NAME: Final = "delta-spark"
TITLE: Final = "release of Delta Lake"
OPTION: Final = "delta=True"
EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
EXTENSIONS: Final = "spark.sql.extensions"
SESSION_CATALOG: Final = "spark.sql.catalog.spark_catalog"

_RELEASES: Final = {"3.5": "3.3.2", "4.0": "4.0.1", "4.1": "4.1.0"}


def coordinates(spark: str, scala: str) -> str | None:
    """Return the Maven coordinates of the release for `spark`, or None if no known release fits.

    `spark` is a version such as `4.0.0`, `scala` one such as `2.13`.
    """
    release = _RELEASES.get(_minor(spark))
    return None if release is None else f"io.delta:{NAME}_{scala}:{release}"


def fits(delta: str, spark: str) -> bool:
    """Return True if the release `delta` of Delta Lake is made for the Spark version `spark`."""
    release = _RELEASES.get(_minor(spark))
    if release is None:
        return False
    # All releases of Delta 3.2 and 3.3 are made for Spark 3.5; from 4.0 on, minor versions are
    # equal.
    return (
        delta.startswith(("3.2.", "3.3."))
        if release.startswith("3.")
        else (_minor(delta) == _minor(release))
    )


def supported() -> str:
    """Return a text with the versions of Spark for which there is a release."""
    *earlier, last = _RELEASES
    return f"{', '.join(earlier)} and {last}"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
