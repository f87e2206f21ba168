"""Creates the target table, adds columns to it, and fits the batch's rows to its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.errors import SettingsError
from eo_listener.sinks.dead_letters import RowFilter
from eo_listener.sinks.iceberg.connection import find
from eo_listener.sinks.iceberg.errors import EXISTS, NO_NAMESPACE
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.spark_columns import NEW_COLUMNS, check_typed, types_of
from eo_listener.sinks.spark_names import quoted
from eo_listener.sinks.target import not_created
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_table import IcebergTable, columns_as_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FORMAT: Final = "format-version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """The settings for a missing table; `create` is False if the sink must not create the table."""

    create: bool
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]

    def statement(self, name: TableName, columns: str) -> str:
        """Return the CREATE TABLE statement."""
        settings = {_FORMAT: "2", **self.properties}
        properties = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in settings.items())
        parts = f" PARTITIONED BY ({', '.join(self.partition_by)})" if self.partition_by else ""
        return (
            f"CREATE TABLE {name.sql} ({columns}) USING iceberg{parts} TBLPROPERTIES ({properties})"
        )


def make(spark: Any, name: TableName, frame: DataFrame, creation: Creation) -> IcebergTable:
    """Create the table with the columns of `frame`. Raises the errors of `find`."""
    check_typed(types_of(frame.schema))
    columns = columns_as_sql(frame)
    statement = creation.statement(name, columns)
    if not creation.create:
        raise not_created(f"table {name.key} does not exist", statement)
    try:
        with java_errors():
            spark.sql(statement)
    except ThrownError as error:
        if error.is_any(*NO_NAMESPACE):
            raise SettingsError(
                f"namespace {name.namespace} does not exist",
                fix=f"Create it: CREATE NAMESPACE {name.namespace}",
            ) from error
        if not error.is_any(*EXISTS):
            raise
    table = find(spark, name)
    if table is None:
        raise SettingsError(
            f"table {name.key} was created, and dropped immediately afterwards",
            fix="Find out which program drops it",
        )
    return table


def matched(
    spark: Any, name: TableName, frame: DataFrame, *, new_columns: bool
) -> tuple[tuple[str, ...], StructType]:
    """Return the columns of `frame` to write, and the table's schema.

    With `new_columns`, the function first adds the columns that the table lacks. Raises
    SettingsError for columns that do not fit the table's columns.
    """
    with java_errors():
        schema = spark.table(name.sql).schema
    lacking = [column for column in frame.columns if column not in {*schema.names, *ORIGIN}]
    if lacking and new_columns:
        _refuse_case(lacking, schema.names)
        new = frame.select(*map(quoted, lacking))
        check_typed(types_of(new.schema))
        added = columns_as_sql(new)
        with java_errors():
            spark.sql(f"ALTER TABLE {name.sql} ADD COLUMNS ({added})")
            schema = spark.table(name.sql).schema
    return RowFilter.for_target(frame.columns, schema.names, fix=NEW_COLUMNS).columns, schema


def fitted(frame: DataFrame, columns: Sequence[str], schema: StructType) -> DataFrame:
    """Return `frame` with the columns of the table, in order; a column not in `columns` is null."""
    return frame.select(
        *(
            F.col(quoted(field.name))
            if field.name in columns
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema.fields
        )
    )


def _refuse_case(lacking: Sequence[str], existing: Sequence[str]) -> None:
    alike = [
        column for column in lacking if column.casefold() in {name.casefold() for name in existing}
    ]
    if alike:
        raise SettingsError(
            f"the rows have the column {alike[0]!r}, which the table spells differently",
            cause="Spark treats names that differ in case only as equal",
            fix="Rename the column in the transform to the table's spelling",
        )


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
