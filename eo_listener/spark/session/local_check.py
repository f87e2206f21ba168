"""Checks the software of this machine by its files; starts no JVM except `java -version`."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from eo_listener.errors import JavaError, SettingsError, UnavailableError, install
from eo_listener.model.check_finding import (
    CheckFinding,
    Findings,
    described,
    failed,
    fine,
    note,
    problem,
    warning,
)
from eo_listener.spark import java, shim
from eo_listener.spark.session import installation
from eo_listener.spark.session.installation import CONNECTOR, Installation
from eo_listener.version import __version__

_ABOUT: Final = "this machine"
_PACKAGES: Final = "spark.jars.packages"
_PYSPARK: Final = ("pyspark", "pyspark-client")
_MADE_FOR: Final = re.compile(rf"{CONNECTOR}_(\d+\.\d+)[-:](\d[^,\s]*?)(?:\.jar)?")


def check_machine() -> Findings:
    """Yield the findings about Python, Spark, Java, the Kafka connector and the shim."""
    client = f"confluent-kafka {_version('confluent-kafka')}"
    yield fine(_ABOUT, f"eo-listener {__version__}, Python {platform.python_version()}, {client}")
    spark, may_lack_java = None, False
    try:
        if installation.spark_homes():
            spark = Installation.find()
            yield from _judge_spark(spark)
        else:  # a machine without Spark may only commit
            may_lack_java = True
            yield note(
                _ABOUT,
                "Spark is not installed here",
                f"{install('spark')}, if a query runs on this machine",
            )
    except SettingsError as error:
        yield failed(_ABOUT, error)
    yield _judge_java(spark, may_lack=may_lack_java)
    yield _judge_shim()


def _judge_spark(spark: Installation) -> Findings:
    yield fine(_ABOUT, f"Spark {spark.version} (Scala {spark.scala}) in {spark.home}")
    pyspark = next((number for name in _PYSPARK if (number := _version(name))), None)
    if pyspark is not None and pyspark != spark.version:
        yield warning(
            _ABOUT,
            f"the Python package is pyspark {pyspark}, but Spark {spark.version} is started",
            f"unset SPARK_HOME, or pip install pyspark=={spark.version}",
        )
    jars = spark.home / "jars"
    try:
        settings = installation.read_settings(spark.home / "conf" / "spark-defaults.conf")
    except SettingsError:  # Spark itself reports it when it starts
        settings = {}
    packages = re.split(r"[\s,]+", settings.get(_PACKAGES, ""))
    connectors = [
        *((file.name, "among Spark's jars") for file in sorted(jars.glob(f"{CONNECTOR}_*.jar"))),
        *((name, "in spark-defaults.conf") for name in packages if CONNECTOR in name),
    ]
    for name, where in connectors:
        match = _MADE_FOR.fullmatch(name.rpartition("org.apache.spark:")[2])
        if match is not None and match.groups() != (spark.scala, spark.version):
            yield problem(
                _ABOUT,
                f"the Kafka connector {where} is for Spark {match[2]} (Scala {match[1]})",
                f"replace it by {CONNECTOR}_{spark.scala}, version {spark.version}",
            )
        elif match is not None:
            yield fine(_ABOUT, f"the Kafka connector {where} fits")
    if not connectors:
        yield note(
            _ABOUT,
            "the Kafka connector is neither among Spark's jars nor in spark-defaults.conf",
            f"eo_listener.configure(builder) adds it; or --packages {spark.connector}",
        )
    shims = sorted(file.name for file in jars.glob("eo-listener-shim-*.jar"))
    if shims:
        yield problem(
            _ABOUT,
            f"a shim is among Spark's own jars ({', '.join(shims)}), where it cannot see jars "
            "added with spark.jars",
            'remove it there; configure() or --jars "$(eo-listener jar)" adds it',
        )


def _judge_java(spark: Installation | None, *, may_lack: bool) -> CheckFinding:
    try:
        if spark is None:
            runtime = java.find(java.OLDEST, None, user="Spark")
        else:
            user = f"Spark {spark.version}"
            runtime = java.find(spark.oldest_java, spark.newest_java, user=user)
    except JavaError as error:
        return (
            note(_ABOUT, described(error), error.fix or "") if may_lack else failed(_ABOUT, error)
        )
    return fine(_ABOUT, f"Java {runtime.feature} ({runtime.executable}) fits")


def _judge_shim() -> CheckFinding:
    try:
        name = shim.jar().name
    except UnavailableError as error:
        return failed(_ABOUT, error)
    if f"-{__version__}.jar" in name:
        return fine(_ABOUT, f"the shim exists: {name}")
    return problem(
        _ABOUT,
        f"the shim is a different version from this package ({__version__}): {name}",
        "in a clone, run make jar; otherwise install the wheel again",
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
