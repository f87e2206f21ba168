"""The settings of a Spark for Iceberg or Delta Lake tables, before it starts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from eo_listener.preflight.table_facts import ICEBERG, RuntimeFacts
from eo_listener.spark.session import delta_lake, iceberg_runtime
from eo_listener.spark.session.configure import JARS, PACKAGES, Settings
from eo_listener.spark.session.installation import Installation
from eo_listener.spark.session.submit_arguments import VARIABLE, SubmitArguments

_DELTA: Final = re.compile(rf"{delta_lake.NAME}_(\d+\.\d+)[-:](\d+\.\d+\.\d+)")


def read_runtime(kind: str, options: Mapping[str, str]) -> RuntimeFacts:
    """Return the settings of this Spark, from `options` and spark-defaults.conf.

    Raises SettingsError if there is no Spark.
    """
    spark = Installation.find()
    arguments = SubmitArguments.parse(os.environ.get(VARIABLE, ""))
    settings = Settings.for_builder(spark, dict(options), arguments)
    jars = [file.name for file in sorted(spark.home.glob("jars/*.jar"))]
    named = [*jars, *settings.items(JARS), *settings.items(PACKAGES)]
    files = [item.rpartition("/")[2] for item in named]
    if kind == ICEBERG:
        name, extension = iceberg_runtime.NAME, iceberg_runtime.EXTENSION
        coordinates, misfit = iceberg_runtime.coordinates, iceberg_runtime.misfit
        supported = iceberg_runtime.supported()
    else:
        name, extension = delta_lake.NAME, delta_lake.EXTENSION
        coordinates, misfit = delta_lake.coordinates, _misfit
        supported = delta_lake.supported()
    lacking = []
    if extension not in settings.items(delta_lake.EXTENSIONS):
        lacking.append(f"{delta_lake.EXTENSIONS}={extension}")
    if kind != ICEBERG and settings.get(delta_lake.SESSION_CATALOG) is None:
        lacking.append(f"{delta_lake.SESSION_CATALOG}={delta_lake.CATALOG}")
    version, scala = spark.version, spark.scala
    return RuntimeFacts(
        spark=version,
        scala=scala,
        runtime=coordinates(version, scala),
        supported=supported,
        installed={file: misfit(file, version, scala) for file in files if name in file},
        lacking=tuple(lacking),
    )


def _misfit(runtime: str, spark: str, scala: str) -> str | None:
    """The Spark that a Delta Lake is made for, if it is not this Spark.

    Of one whose name does not say it, nothing is known.
    """
    match = _DELTA.search(runtime)
    if match is None or (match[1] == scala and delta_lake.fits(match[2], spark)):
        return None
    return f"another Spark or Scala (Delta Lake {match[2]}, Scala {match[1]})"
