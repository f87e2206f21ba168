"""Delta Lake for the tests: its jars, and a session of the shared JVM that uses it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, cast

import pyspark
from pyspark.sql import SparkSession

from eo_listener.spark.session import delta_lake
from tests import artifacts

_PARTITIONS = "spark.databricks.delta.snapshotPartitions"  # else 50 tasks, whatever the table


@functools.cache
def jars() -> tuple[Path, ...]:
    """The files for the Spark under test; none where no Delta Lake fits it."""
    scala = "2.12" if pyspark.__version__.startswith("3.") else "2.13"
    wanted = delta_lake.coordinates(pyspark.__version__, scala)
    if wanted is None:
        return ()
    organisation, name, release = wanted.split(":")
    return artifacts.fetch(  # of what else they ask for, Spark brings Scala and ANTLR
        [
            artifacts.Artifact.of(f"{organisation}:{one}:{release}", transitive=False)
            for one in (name, "delta-storage")
        ],
        artifacts.cache_folder() / "tests" / f"delta-{release}",
        checksums=_checksums(release),
    )


def conf() -> dict[str, str]:
    """The settings of a session of its own, in a JVM of its own."""
    return {
        delta_lake.EXTENSIONS: delta_lake.EXTENSION,
        delta_lake.SESSION_CATALOG: delta_lake.CATALOG,
        _PARTITIONS: "2",
        "spark.jars": ",".join(map(str, jars())),
    }


def _checksums(release: str) -> dict[str, str]:
    text = (Path(__file__).parent / "data" / "delta_lake" / f"{release}.sha256").read_text()
    return {name: digest for digest, name in map(str.split, text.splitlines())}


@functools.cache
def _extended(spark: SparkSession) -> None:
    """Let new sessions of this JVM have Delta's extension, as `spark.sql.extensions` does."""
    jvm = cast(Any, spark._jvm)
    jvm.io.delta.sql.DeltaSparkSessionExtension().apply(spark._jsparkSession.extensions())


def delta_session(spark: SparkSession) -> SparkSession:
    """A session beside the shared one, in its JVM, that can use Delta Lake."""
    _extended(spark)
    session = spark.newSession()
    session.conf.set(delta_lake.SESSION_CATALOG, delta_lake.CATALOG)
    for one in (spark, session):  # Delta asks the one that is active in a thread
        one.conf.set(_PARTITIONS, "2")
        # asks for the settings, and not for what they have done
        one.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    return session
