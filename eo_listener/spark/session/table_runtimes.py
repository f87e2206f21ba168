"""What a Spark is given for tables of Iceberg's or of Delta Lake's, before it starts."""

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


def read_runtime(kind: str, given: Mapping[str, str]) -> RuntimeFacts:
    """What this Spark is given with the settings `given`, and by spark-defaults.conf.

    Raises SettingsError where there is no Spark.
    """
    spark = Installation.find()
    arguments = SubmitArguments.parse(os.environ.get(VARIABLE, ""))
    settings = Settings.of(spark, dict(given), arguments)
    jars = [file.name for file in sorted(spark.home.glob("jars/*.jar"))]
    named = [*jars, *settings.items(JARS), *settings.items(PACKAGES)]
    files = [one.rpartition("/")[2] for one in named]
    extension = iceberg_runtime.EXTENSION if kind == ICEBERG else delta_lake.EXTENSION
    lacking = []
    if extension not in settings.items(delta_lake.EXTENSIONS):
        lacking.append(f"{delta_lake.EXTENSIONS}={extension}")
    if kind == ICEBERG:
        return RuntimeFacts(
            spark=spark.version,
            scala=spark.scala,
            wanted=iceberg_runtime.coordinates(spark.version, spark.scala),
            supported=iceberg_runtime.supported(),
            given={
                one: iceberg_runtime.misfit(one, spark.version, spark.scala)
                for one in files
                if iceberg_runtime.NAME in one
            },
            lacking=tuple(lacking),
        )
    if settings.get(delta_lake.SESSION_CATALOG) is None:
        lacking.append(f"{delta_lake.SESSION_CATALOG}={delta_lake.CATALOG}")
    return RuntimeFacts(
        spark=spark.version,
        scala=spark.scala,
        wanted=delta_lake.coordinates(spark.version, spark.scala),
        supported=delta_lake.supported(),
        given={
            one: _misfit(one, spark.version, spark.scala) for one in files if delta_lake.NAME in one
        },
        lacking=tuple(lacking),
    )


def _misfit(delta: str, spark: str, scala: str) -> str | None:
    """What a Delta Lake is made for, where that is not this Spark.

    Of one whose name does not say it, nothing is known.
    """
    found = _DELTA.search(delta)
    if found is None or (found[1] == scala and delta_lake.fits(found[2], spark)):
        return None
    return f"another Spark or Scala (Delta Lake {found[2]}, Scala {found[1]})"
