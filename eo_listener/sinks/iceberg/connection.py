"""Loads a table from the session's catalog; first checks the session's Iceberg runtime."""

from __future__ import annotations

from typing import Any, Final

from eo_listener.errors import SettingsError
from eo_listener.sinks.iceberg.errors import ABSENT, NO_NAMESPACE
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.spark.jvm.calls import scala_version
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_table import IcebergTable, runtime_jar
from eo_listener.spark.jvm.sessions import working_in
from eo_listener.spark.session import iceberg_runtime

WAP: Final = ("spark.wap.id", "spark.wap.branch")
_NO_CATALOG: Final = "CatalogNotFoundException"


def check_runtime(spark: Any) -> None:
    """Raise SettingsError if the session has no Iceberg, or an Iceberg for a different Spark."""
    if not hasattr(spark, "_jvm"):
        raise SettingsError(
            "IcebergSink needs Spark's JVM, which Spark Connect does not provide",
            fix="Run the query in a classic session",
        )
    scala = scala_version(spark)
    jar = runtime_jar(spark)
    if jar is None:
        raise SettingsError(
            "Spark has no Iceberg: its runtime jar was not passed to Spark",
            fix=_fitting(spark.version, scala),
        )
    made_for = iceberg_runtime.misfit(jar, spark.version, scala)
    if made_for is not None:
        raise SettingsError(
            f"the Iceberg runtime is for {made_for}, but this is Spark {spark.version} with "
            f"Scala {scala}",
            cause=jar.rpartition("/")[2],
            fix=_fitting(spark.version, scala),
        )


def find(spark: Any, name: TableName) -> IcebergTable | None:
    """Load the table; return None if it does not exist.

    Raises ThrownError, JvmError and SettingsError.
    """
    check_runtime(spark)
    catalog = name.parts[0]
    try:
        table = IcebergTable.load(spark, name.sql, catalog)
        # Iceberg treats a catalog that failed to load as missing; by now it may load.
        if table is None and _has_catalog(spark, catalog):
            table = IcebergTable.load(spark, name.sql, catalog)
    except ThrownError as error:
        if error.is_any(*ABSENT, *NO_NAMESPACE):
            return None
        raise
    if table is None:
        raise SettingsError(
            f"the Spark session has no catalog {catalog!r}",
            cause="it is not configured, or was set with spark.conf.set in another session, which "
            "only that session sees. The sink looks in the sessions of the query and of "
            "this thread, and in the first session of the process",
            fix=f"Set spark.sql.catalog.{catalog}=org.apache.iceberg.spark.SparkCatalog, and "
            "its type, uri and warehouse, in the builder of the first session or with "
            "--conf, so that every session has it; for a command of eo-listener, with --spark-conf",
        )
    return table


def has_files_of(spark: Any, name: TableName, label: str, snapshot: int) -> bool:
    """Return True if main still lists a file that `snapshot` has written.

    Raises the errors of `find`, and SettingsError if the session would read a branch other than
    main.
    """
    table = find(spark, name)  # a cached table may have the main from before a rollback
    if table is not None:
        check_wap(spark, table, label)
    with java_errors():
        entries = spark.table(f"{name.sql}.entries")
        return not entries.where(f"snapshot_id = {snapshot}").isEmpty()


def check_wap(spark: Any, table: IcebergTable, label: str) -> None:
    """Raise SettingsError if WAP settings would redirect the session's reads or writes.

    If spark.wap.id is set, Spark writes rows to no branch at all (`SparkWrite.commitOperation`).
    Raises ThrownError.
    """
    settings = [name for name in WAP if spark.conf.get(name, None) is not None]
    if settings and table.has_property("write.wap.enabled"):
        raise SettingsError(
            f"{label} has write.wap.enabled, and the query's session has {settings[0]}",
            cause="rows would not be written to the branch of the batch",
            fix=f"Remove {settings[0]} from the session of the query",
        )


def _has_catalog(spark: Any, catalog: str) -> bool:
    """Return True if the session has the catalog. Raises ThrownError if it cannot be loaded."""
    try:
        with working_in(spark), java_errors():
            spark._jsparkSession.sessionState().catalogManager().catalog(catalog)  # noqa: SLF001  # pyspark lacks this
    except ThrownError as error:
        if not error.is_any(_NO_CATALOG):
            raise
        return False
    return True


def _fitting(spark: str, scala: str) -> str:
    wanted = iceberg_runtime.coordinates(spark, scala)
    if wanted is None:
        return (
            f"No Iceberg runtime exists for Spark {spark} with Scala {scala}: use Spark "
            f"{iceberg_runtime.supported()}"
        )
    return (
        "configure(SparkSession.builder, iceberg=True).getOrCreate(), or spark-submit --packages "
        f"{wanted}"
    )
