"""Checks the table of a DeltaSink before its first batch. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from eo_listener.model.check_finding import Findings, fine, note, problem, warning
from eo_listener.sinks.delta.connection import Connection
from eo_listener.sinks.delta.ledger_reader import DeltaLedgerReader
from eo_listener.sinks.table_checks import judge_absent, judge_ledgers, judge_storage
from eo_listener.spark.checkpoint.location import shown
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.jvm.calls import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eo_listener.sinks.delta.arguments import Target

_RETENTION: Final = "delta.logRetentionDuration"
_CLEANUP: Final = "delta.enableExpiredLogCleanup"
_APPEND_ONLY: Final = "delta.appendOnly"
_MAPPING: Final = "delta.columnMapping.mode"
_LEAST_RETENTION: Final = timedelta(days=7)
_AGE: Final = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)
_CATALOG: Final = "spark.sql.catalogImplementation"
_OWN: Final = "spark_catalog"


def findings(target: Target, query: str | None) -> Findings:
    """Yield the findings about a table; `query` is the query's name, if it is known.

    Raises EoListenerError if the sink would refuse the table, or the table cannot be read.
    """
    about, connection = shown(target.label), Connection(target, target.label)
    session = connection.session()
    log = connection.log(session)
    yield fine(about, f"Delta Lake {delta_log.library_version(session)}")
    if log is None:
        yield from _absent(target, connection, session)
        return
    location = log.table.location
    protocol, properties = delta_log.properties_of(session, location)
    yield fine(about, f"it exists, with protocol {protocol}")
    yield judge_storage(about, location)
    yield from judge_properties(about, connection.reference, properties)
    reader = DeltaLedgerReader(target.table or target.path or "", lambda: session, query=query)
    yield from judge_ledgers(about, query, reader.stored(log))


def _absent(target: Target, connection: Connection, session: SparkSession) -> Findings:
    about = shown(target.label)
    if target.table is None:
        yield judge_absent(about, "DeltaSink", create=target.create)
        if target.create:
            yield judge_storage(about, connection.location(session) or "")
        return
    *parents, _ = target.parts
    database = ".".join(parents)
    with asking("find the database of a table"):
        in_memory = session.conf.get(_CATALOG, "in-memory") == "in-memory"
        lasting = not in_memory or (len(parents) > 1 and parents[0] != _OWN)
        exists = not parents or session.catalog.databaseExists(database)
    if not lasting:
        yield warning(
            about,
            "Spark's catalog is in memory here, so the name means nothing after the application "
            "ends: the next application would create another table",
            "if the query has a metastore, pass its settings: --spark-conf "
            "spark.sql.catalogImplementation=hive; if not, write to a path: DeltaSink(path=...)",
        )
    elif exists:
        yield judge_absent(about, "DeltaSink", create=target.create)
    else:
        yield problem(about, f"database {database} does not exist", f"CREATE DATABASE {database}")


def judge_properties(about: str, table: str, properties: Mapping[str, str]) -> Findings:
    """Yield the findings about a table's properties; `table` is its name in SQL."""
    if properties.get(_APPEND_ONLY, "").strip().lower() == "true":
        yield note(
            about,
            f"it has {_APPEND_ONLY}: an upsert that changes a row fails",
            f"use mode=\"append\"; or ALTER TABLE {table} UNSET TBLPROPERTIES ('{_APPEND_ONLY}')",
        )
    mapping = properties.get(_MAPPING, "none")
    if mapping != "none":
        yield fine(about, f"it has {_MAPPING}={mapping}: columns are matched by name")
    retention = properties.get(_RETENTION)
    if retention is None or properties.get(_CLEANUP, "").strip().lower() == "false":
        return
    match = _AGE.fullmatch(retention.strip())  # None if it has several units
    if match is None:
        yield note(
            about,
            f"it has {_RETENTION}={retention}",
            "if a query writes nothing for that long while others do, it loses its ledger",
        )
    elif timedelta(**{f"{match[2].lower()}s": int(match[1])}) < _LEAST_RETENTION:
        yield warning(
            about,
            f"it has {_RETENTION}={retention}: if a query writes nothing for that long while "
            "others do, it loses its ledger",
            f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{_RETENTION}'); Delta's default is 30 days",
        )
