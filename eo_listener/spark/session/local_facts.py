"""Reads from files which software this machine has; starts no JVM except `java -version`."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from eo_listener.errors import EoListenerError, JavaError, SettingsError, UnavailableError
from eo_listener.preflight.local_checks import LocalFacts
from eo_listener.spark import java, shim
from eo_listener.spark.session import installation
from eo_listener.spark.session.installation import CONNECTOR, Installation
from eo_listener.version import __version__

_PACKAGES: Final = "spark.jars.packages"
_PYSPARK: Final = ("pyspark", "pyspark-client")


def read_local_facts() -> LocalFacts:
    """Return the facts about this machine's software, including missing or wrong parts."""
    facts: dict[str, Any] = {
        "version": __version__,
        "python": platform.python_version(),
        "kafka_client": f"confluent-kafka {_version('confluent-kafka')}",
        "pyspark": next((number for name in _PYSPARK if (number := _version(name))), None),
    }
    spark: Installation | None = None
    try:
        if installation.spark_homes():  # a machine without Spark may only commit
            spark = Installation.find()
    except SettingsError as error:
        facts["spark_error"] = error
    if spark is not None:
        facts |= _of_spark(spark)
        facts |= _of_java(spark.oldest_java, spark.newest_java, f"Spark {spark.version}")
    else:
        facts |= _of_java(java.OLDEST, None, "Spark")
    try:
        facts["shim"] = shim.jar().name
    except UnavailableError as error:
        facts["shim_error"] = error
    return LocalFacts(**facts)


def _of_spark(spark: Installation) -> dict[str, Any]:
    jars = spark.home / "jars"
    try:
        settings = installation.read_settings(spark.home / "conf" / "spark-defaults.conf")
    except SettingsError:  # Spark itself reports it when it starts
        settings = {}
    packages = re.split(r"[\s,]+", settings.get(_PACKAGES, ""))
    return {
        "spark": spark.version,
        "scala": spark.scala,
        "home": str(spark.home),
        "connectors": _names(jars, f"{CONNECTOR}_*.jar"),
        "packages": tuple(
            package.rpartition("org.apache.spark:")[2]
            for package in packages
            if CONNECTOR in package
        ),
        "shims": _names(jars, "eo-listener-shim-*.jar"),
    }


def _of_java(oldest: int, newest: int | None, user: str) -> dict[str, EoListenerError | str]:
    try:
        runtime = java.find(oldest, newest, user=user)
    except JavaError as error:
        return {"java_error": error}
    return {"java": f"{runtime.feature} ({runtime.executable})"}


def _names(folder: Path, pattern: str) -> tuple[str, ...]:
    return tuple(sorted(file.name for file in folder.glob(pattern)))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
