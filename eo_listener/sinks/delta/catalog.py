"""Reads and adds columns of a Delta table, creates the table, and checks its settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.errors import SettingsError, few
from eo_listener.sinks.delta.arguments import Target
from eo_listener.sinks.spark_names import quoted
from eo_listener.sinks.target import not_created
from eo_listener.spark.jvm.delta_log import LOG_STORE, other_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import DataFrame, SparkSession

    from eo_listener.spark.jvm.delta_log import DeltaTable

FORGETS: Final = "delta.setTransactionRetentionDuration"
COORDINATED: Final = "delta.coordinatedCommits.commitCoordinator-preview"
SETTINGS: Final = (FORGETS, COORDINATED)
"""The table properties that the sink reads."""

_NUMBERS: Final = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
)
_EMPTY: Final = re.compile(r"part-00000-.*\.parquet")
_OF_S3: Final = ("s3", "s3a", "s3n")


def create(frame: DataFrame, target: Target, reference: str, columns: Iterable[str]) -> None:
    """Create the table, without rows, with these columns of `frame`, in a separate commit.

    Raises SettingsError if `create=False`, or if the folder of a new table has other files. Raises
    JvmError, and Spark's own error, for example if another program has created the table meanwhile.
    """
    if not target.create:
        creation = f"CREATE TABLE {reference} (...) USING delta"
        raise not_created(f"table {reference} does not exist", creation)
    empty, partitions, path = _empty(frame, columns), target.partition_by, target.path
    if path is not None:
        if files := _foreign_files(frame.sparkSession, path):
            raise SettingsError(
                f"{target.label} cannot be created: its folder has other files ({few(files)})",
                fix="Name an empty folder; or create the table, for example from Parquet files: "
                f"CONVERT TO DELTA parquet.{quoted(path)}",
            )
        # Spark's CREATE TABLE would refuse a log without commits, which a killed driver can leave.
        writer = empty.write.format("delta").mode("errorifexists")
        (writer.partitionBy(*partitions) if partitions else writer).save(path)
        return
    table = empty.writeTo(reference).using("delta")
    if partitions:
        table = table.partitionedBy(*(F.col(quoted(name)) for name in partitions))
    table.create()


def _foreign_files(session: SparkSession, path: str) -> list[str]:
    """Return the files in a folder without a table, except those that a killed driver leaves.

    To create a table without rows, Delta writes one empty Parquet file before the commit.
    """
    files = other_files(session, path)
    if all(_EMPTY.fullmatch(name) for name in files):
        paths = [f"{path}/{name}" for name in files]
        if not paths or not session.read.parquet(*paths).limit(1).count():
            return []
    return files


def add_columns(frame: DataFrame, location: str, columns: Iterable[str]) -> None:
    """Add these columns of `frame` to the table, in a separate commit."""
    writer = _empty(frame, columns).write.format("delta").mode("append")
    writer.option("mergeSchema", "true").save(location)


def check_no_number(session: SparkSession) -> None:
    """Raise SettingsError if settings of the session give all its commits the same number.

    Delta skips a commit whose number it knows, so it would not create the table or add columns. The
    commits of batches are not affected, because they have their own numbers.
    """
    settings = [name for name in _NUMBERS if session.conf.get(name, None) is not None]
    if settings:
        raise SettingsError(
            f"the session of the query has {settings[0]}",
            cause="Delta would use it to number the commit that creates a table or adds a "
            "column, and skip the second commit of the same number",
            fix="Unset it, and pass txnAppId and txnVersion as options of each of your own writes",
        )


def _empty(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    return frame.where(F.lit(False)).select(*(F.col(quoted(name)) for name in columns))


def check_storage(label: str, location: str, log_stores: Collection[str]) -> None:
    """Raise SettingsError if two drivers could both write one version of the table's log.

    `log_stores` are the settings that name a LogStore. If one of them is set, the function accepts
    the user's choice.
    """
    scheme, colon, _ = location.partition(":")
    if not colon or scheme.lower() not in _OF_S3:
        return
    keys = (f"{LOG_STORE}class", f"{LOG_STORE}{scheme.lower()}.impl")
    if any(key in log_stores or f"spark.{key}" in log_stores for key in keys):
        return
    setting = f"spark.{keys[1]}"
    raise SettingsError(
        f"{label} is on S3, which lets two drivers both write one version of its log: the later "
        "write replaces the other's batch",
        cause=f"without {setting} Delta supports one writing JVM at a time, and a driver that "
        "is still running when a new driver starts is a second one",
        fix=f"Set {setting}=io.delta.storage.S3DynamoDBLogStore when you start the "
        "application. If there can never be more than one writing driver, use "
        "io.delta.storage.S3SingleDriverLogStore",
    )


def check_table(label: str, reference: str, table: DeltaTable) -> None:
    """Raise SettingsError for a table that could lose the ledger silently."""
    if FORGETS in table.settings:
        raise SettingsError(
            f"{label} has {FORGETS}={table.settings[FORGETS]}",
            cause="Delta forgets the number of a query's last batch after that time, and that "
            "number keeps an older driver out",
            fix=f"ALTER TABLE {reference} UNSET TBLPROPERTIES ('{FORGETS}')",
        )
    if COORDINATED in table.settings:
        raise SettingsError(
            f"the commits of {label} are coordinated by {table.settings[COORDINATED]}",
            cause="they do not appear immediately in _delta_log, where the sink reads the ledger",
            fix="Use a table without coordinated commits",
        )
