"""Reads the table of an IcebergSink for preflight. Changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eo_listener.errors import EoListenerError
from eo_listener.preflight.table_facts import IcebergFacts, LedgerFacts, TablePlan
from eo_listener.sinks.iceberg.connection import WAP
from eo_listener.sinks.iceberg.errors import NO_NAMESPACE
from eo_listener.sinks.iceberg.ledger_reader import IcebergLedgerReader
from eo_listener.sinks.iceberg.names import TableName, is_branch_of_any
from eo_listener.sinks.storage_rights import storage_at
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_table import IcebergTable, TableSettings, release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eo_listener.spark.session.local_spark import LocalSpark

_OF_CATALOG: Final = "iceberg_tables"  # of a JDBC catalog, in its database
_SQLITE: Final = "jdbc:sqlite:"
_CENTURY: Final = 36500 * 86_400_000  # milliseconds
_AGE: Final = "history.expire.max-ref-age-ms"


def describe(plan: TablePlan, spark: LocalSpark) -> IcebergFacts:
    """Return the facts about the table of `plan`, read in the command's own Spark session.

    If the table cannot be read, the facts have the reason. Raises SettingsError for an invalid
    name.
    """
    name = TableName.parse(plan.name)
    reader = IcebergLedgerReader(plan.name, spark, query=plan.query)
    facts = IcebergFacts(release="", forwards=True)
    try:
        session = spark.session()
        number, forwards = release(session)
        facts = IcebergFacts(release=number, forwards=forwards)
        if not _has_database(session, name.parts[0]):
            return replace(facts, namespace=None)
        table = reader.table()
        facts = replace(facts, store=_store(session, name.parts[0]))
        if table is None:
            return replace(facts, namespace=_has_namespace(session, name))
        return _describe_table(session, table, reader, facts)
    except EoListenerError as error:
        facts = IcebergFacts(release=facts.release, forwards=facts.forwards)
        thrown = error.__cause__
        if isinstance(thrown, ThrownError) and thrown.says(_OF_CATALOG):
            return replace(facts, namespace=None)
        return replace(facts, error=error)


def _describe_table(
    session: SparkSession, table: IcebergTable, reader: IcebergLedgerReader, facts: IcebergFacts
) -> IcebergFacts:
    settings = table.settings()
    return replace(
        facts,
        exists=True,
        format=settings.format,
        snapshots=settings.snapshots,
        properties=settings.properties,
        expiring={name: table.branches[name] for name in _expiring(settings)},
        wap=next((name for name in WAP if session.conf.get(name, None) is not None), None),
        storage=storage_at(settings.location),
        ledgers=LedgerFacts.read(lambda: reader.stored(table)),
    )


def _expiring(settings: TableSettings) -> list[str]:
    """Return the sinks' branches that can now expire; sinks make branches that never expire."""
    return [
        name
        for name, age in settings.ages.items()
        if is_branch_of_any(name)
        and (age < _CENTURY if age is not None else _AGE in settings.properties)
    ]


def _store(session: SparkSession, catalog: str) -> str:
    """Return the type of a catalog, or the class that is configured instead of a type."""
    setting = f"spark.sql.catalog.{catalog}"
    for key in (f"{setting}.type", f"{setting}.catalog-impl", setting):
        value = session.conf.get(key, None)
        if value is not None:
            return value.rpartition(".")[2]
    return ""


def _has_database(session: SparkSession, catalog: str) -> bool:
    """Return False if the catalog's database is a file that does not exist; a query creates it."""
    uri = session.conf.get(f"spark.sql.catalog.{catalog}.uri", None) or ""
    file, is_sqlite = uri.removeprefix(_SQLITE).partition("?")[0], uri.startswith(_SQLITE)
    return not is_sqlite or file.startswith(":") or Path(file.removeprefix("file:")).exists()


def _has_namespace(session: SparkSession, name: TableName) -> bool:
    try:
        with java_errors():
            session.sql(f"DESCRIBE NAMESPACE {name.namespace}").collect()
    except ThrownError as error:
        return not error.is_any(*NO_NAMESPACE)  # the first batch will report any other error
    return True
