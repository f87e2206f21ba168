"""Reads the table of a DeltaSink for preflight. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eo_listener.errors import EoListenerError
from eo_listener.preflight.table_facts import DeltaFacts, LedgerFacts, TablePlan
from eo_listener.sinks.delta.arguments import Target
from eo_listener.sinks.delta.connection import Connection, TableLog
from eo_listener.sinks.delta.ledger_reader import DeltaLedgerReader
from eo_listener.sinks.storage_rights import storage_at
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.jvm.calls import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eo_listener.spark.session.local_spark import LocalSpark

_CATALOG: Final = "spark.sql.catalogImplementation"
_OWN: Final = "spark_catalog"


def describe(plan: TablePlan, spark: LocalSpark) -> DeltaFacts:
    """Return the facts about the table of `plan`, read in the command's own Spark session.

    If the table cannot be read, or the sink would refuse it, the facts have the reason. Raises
    SettingsError for an invalid name.
    """
    target = Target.to_read(plan.name)
    connection = Connection(target, target.label)
    reader = DeltaLedgerReader(plan.name, spark, query=plan.query)
    release = ""
    try:
        session = spark.session()
        release = delta_log.library_version(session) or ""
        log = connection.log(session)
        if log is None:
            return _absent(session, target, connection, release)
        return _described(session, log, connection, reader, release)
    except EoListenerError as error:
        return DeltaFacts(release=release, error=error)
    finally:
        connection.forget()


def _absent(
    session: SparkSession, target: Target, connection: Connection, release: str
) -> DeltaFacts:
    if target.table is None:
        place = connection.location(session)
        return DeltaFacts(release=release, storage=None if place is None else storage_at(place))
    *parents, _ = target.parts
    with asking("find the database of a table"):
        in_memory = session.conf.get(_CATALOG, "in-memory") == "in-memory"
        lasting = not in_memory or (len(parents) > 1 and parents[0] != _OWN)
        exists = not lasting or not parents or session.catalog.databaseExists(".".join(parents))
    return DeltaFacts(release=release, lasting=lasting, database=exists)


def _described(
    session: SparkSession,
    log: TableLog,
    connection: Connection,
    reader: DeltaLedgerReader,
    release: str,
) -> DeltaFacts:
    protocol, properties = delta_log.properties_of(session, log.table.location)
    return DeltaFacts(
        release=release,
        exists=True,
        reference=connection.reference,
        protocol=protocol,
        properties=properties,
        storage=storage_at(log.table.location),
        ledgers=LedgerFacts.read(lambda: reader.stored(log)),
    )
