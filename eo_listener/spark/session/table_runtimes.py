"""Reads, before Spark starts, which settings for Iceberg or Delta Lake tables it will have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from eo_listener.preflight.table_facts import ICEBERG, RuntimeFacts
from eo_listener.spark.session import delta_lake, iceberg_runtime
from eo_listener.spark.session.configure import JARS, PACKAGES, Settings, spark_defaults
from eo_listener.spark.session.installation import Installation
from eo_listener.spark.session.submit_arguments import VARIABLE, SubmitArguments


def read_runtime(kind: str, options: Mapping[str, str]) -> RuntimeFacts:
    """Return the facts for tables of `kind`, from this Spark, `options` and spark-defaults.conf.

    Raises SettingsError if there is no Spark.
    """
    spark = Installation.find()
    arguments = SubmitArguments.parse(os.environ.get(VARIABLE, ""))
    settings = Settings(
        options=dict(options), arguments=arguments, defaults=spark_defaults(spark, arguments)
    )
    jars = [file.name for file in sorted(spark.home.glob("jars/*.jar"))]
    named = [*jars, *settings.items(JARS), *settings.items(PACKAGES)]
    files = [item.rpartition("/")[2] for item in named]
    library: Any = iceberg_runtime if kind == ICEBERG else delta_lake
    lacking = []
    if library.EXTENSION not in settings.items(delta_lake.EXTENSIONS):
        lacking.append(f"{delta_lake.EXTENSIONS}={library.EXTENSION}")
    if kind != ICEBERG and settings.get(delta_lake.SESSION_CATALOG) is None:
        lacking.append(f"{delta_lake.SESSION_CATALOG}={delta_lake.CATALOG}")
    version, scala = spark.version, spark.scala
    return RuntimeFacts(
        spark=version,
        scala=scala,
        runtime=library.coordinates(version, scala),
        supported=library.supported(),
        installed={
            file: library.misfit(file, version, scala) for file in files if library.NAME in file
        },
        lacking=tuple(lacking),
    )
