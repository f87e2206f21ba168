"""Checks if Python, Java, Spark, its Kafka connector and the shim fit together.

Reads and writes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from eo_listener.errors import EoListenerError, install
from eo_listener.preflight.findings import Findings, described, failed, fine, note, problem, warning

_ABOUT: Final = "this machine"
_CONNECTOR: Final = re.compile(r"spark-sql-kafka-0-10_(\d+\.\d+)[-:](\d[^,\s]*?)(?:\.jar)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """The software on this machine. A missing part is None, and its error has the reason."""

    version: str
    python: str
    kafka_client: str
    #: The version of the Python package pyspark.
    pyspark: str | None = None
    #: The version of the Spark in `home`.
    spark: str | None = None
    #: The version of Scala for which this Spark is made.
    scala: str | None = None
    home: str | None = None
    spark_error: EoListenerError | None = None
    java: str | None = None
    java_error: EoListenerError | None = None
    #: File names of Kafka connectors among Spark's own jars.
    connectors: tuple[str, ...] = ()
    #: Maven coordinates in spark-defaults.conf, without the organisation.
    packages: tuple[str, ...] = ()
    #: File names of shims among Spark's own jars.
    shims: tuple[str, ...] = ()
    #: The name of the shim's jar in this package.
    shim: str | None = None
    shim_error: EoListenerError | None = None


def judge_local(facts: LocalFacts) -> Findings:
    """Yield the findings about the software installed on this machine."""
    yield fine(
        _ABOUT,
        f"eo-listener {facts.version}, Python {facts.python}, {facts.kafka_client}",
    )
    if facts.spark_error is not None:
        yield failed(_ABOUT, facts.spark_error)
    elif facts.spark is not None:
        yield from _spark(facts)
    else:
        yield note(
            _ABOUT,
            "Spark is not installed here",
            f"{install('spark')}, if a query runs on this machine",
        )
    if facts.java_error is not None and facts.spark is None and facts.spark_error is None:
        yield note(_ABOUT, described(facts.java_error), facts.java_error.fix or "")
    elif facts.java_error is not None:
        yield failed(_ABOUT, facts.java_error)
    elif facts.java is not None:
        yield fine(_ABOUT, f"Java {facts.java} fits")
    yield from _shim(facts)


def _spark(facts: LocalFacts) -> Findings:
    yield fine(_ABOUT, f"Spark {facts.spark} (Scala {facts.scala}) in {facts.home}")
    if facts.pyspark is not None and facts.pyspark != facts.spark:
        yield warning(
            _ABOUT,
            f"the Python package is pyspark {facts.pyspark}, but Spark {facts.spark} is started",
            f"unset SPARK_HOME, or pip install pyspark=={facts.spark}",
        )
    own_versions = (facts.scala, facts.spark)
    for name in (*facts.connectors, *facts.packages):
        match = _CONNECTOR.fullmatch(name)
        versions = (match[1], match[2]) if match else None
        where = "among Spark's jars" if name in facts.connectors else "in spark-defaults.conf"
        if versions is not None and versions != own_versions:
            yield problem(
                _ABOUT,
                f"the Kafka connector {where} is for Spark {versions[1]} (Scala {versions[0]})",
                f"replace it by spark-sql-kafka-0-10_{facts.scala}, version {facts.spark}",
            )
        elif versions is not None:
            yield fine(_ABOUT, f"the Kafka connector {where} fits")
    if not facts.connectors and not facts.packages:
        yield note(
            _ABOUT,
            "the Kafka connector is neither among Spark's jars nor in spark-defaults.conf",
            "eo_listener.configure(builder) adds it; or --packages "
            f"org.apache.spark:spark-sql-kafka-0-10_{facts.scala}:{facts.spark}",
        )


def _shim(facts: LocalFacts) -> Findings:
    if facts.shim_error is not None:
        yield failed(_ABOUT, facts.shim_error)
    elif facts.shim is not None:
        if f"-{facts.version}.jar" in facts.shim:
            yield fine(_ABOUT, f"the shim exists: {facts.shim}")
        else:
            yield problem(
                _ABOUT,
                f"the shim is a different version from this package ({facts.version}): "
                f"{facts.shim}",
                "in a clone, run make jar; otherwise install the wheel again",
            )
    if facts.shims:
        yield problem(
            _ABOUT,
            f"a shim is among Spark's own jars ({', '.join(facts.shims)}), where it cannot see "
            "jars added with spark.jars",
            'remove it there; configure() or --jars "$(eo-listener jar)" adds it',
        )
