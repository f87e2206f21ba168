"""Checks the tables of an IcebergSink before its first batch. Changes nothing.

The check uses its own session, so that the query's session neither keeps a catalog that was not
allowed to create its tables, nor gets that setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eo_listener.errors import EoListenerError
from eo_listener.model.check_finding import CheckFinding, Findings, fine, note, problem, warning
from eo_listener.sinks.iceberg.connection import check_runtime, check_wap
from eo_listener.sinks.iceberg.errors import NO_NAMESPACE
from eo_listener.sinks.iceberg.ledger_reader import IcebergLedgerReader
from eo_listener.sinks.iceberg.names import TableName, is_branch_of_any
from eo_listener.sinks.table_checks import judge_absent, judge_ledgers, judge_storage
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_table import TableSettings, release, session
from eo_listener.spark.jvm.sessions import session_apart

_TABLES: Final = "iceberg_tables"  # of a JDBC catalog, in its database
_SQLITE: Final = "jdbc:sqlite:"
_CENTURY: Final = 36500  # days
_DAY: Final = 86_400_000  # milliseconds
_AGE: Final = "history.expire.max-ref-age-ms"
_DELETES_METADATA: Final = "write.metadata.delete-after-commit.enabled"
_METADATA_KEPT: Final = "write.metadata.previous-versions-max"
_KEPT_BY_ITSELF: Final = 100
_FORMAT: Final = 2
_MANY: Final = 2000  # snapshots: about 3 MB of metadata, which each commit of a batch writes


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """Checks the table `name`, in `session`, or else in another session that has the catalog.

    `query` is the query's name, if it is known. `has_ledgers` is False for a table of dead letters.
    """

    name: TableName
    session: Any
    query: str | None
    create: bool
    has_ledgers: bool = True

    def findings(self) -> Findings:
        """Yield the findings. Raises EoListenerError if the session or the table cannot be read."""
        about, catalog = self.name.label, self.name.parts[0]
        spark = session(catalog, self.session)
        check_runtime(spark)
        number, forwards = release(spark)
        if forwards:
            yield fine(about, f"Iceberg {number} can fast-forward branches")
        else:
            yield problem(
                about,
                f"Iceberg {number} cannot fast-forward main to a branch, and the sink needs this "
                "to publish a batch",
                "use release 1.10 or later: configure(builder, iceberg=True) adds such a release",
            )
        apart = session_apart(spark, f"spark.sql.catalog.{catalog}")
        reader = IcebergLedgerReader(self.name.key, lambda: apart, query=self.query)
        with reader.explained():
            yield from self._table_findings(spark, apart, reader)

    def _table_findings(self, spark: Any, apart: Any, reader: IcebergLedgerReader) -> Findings:
        about, store = self.name.label, _store(apart, self.name.parts[0])
        if store == "hadoop":
            yield warning(
                about,
                "its catalog (type hadoop) detects a conflicting commit only if the storage "
                "renames files atomically, which S3 does not",
                "use a catalog in a database (type=jdbc), Hive or REST",
            )
        try:
            is_empty = not _has_database(apart, self.name.parts[0])
            table = None if is_empty else reader.table()
        except EoListenerError as error:
            thrown = error.__cause__
            if not isinstance(thrown, ThrownError) or not thrown.says(_TABLES):
                raise
            is_empty, table = True, None
        if table is None:
            yield self._absent(apart, is_empty=is_empty)
            return
        settings = table.settings()
        yield fine(about, f"it exists, in format {settings.format} ({store} catalog)")
        yield judge_storage(about, settings.location)
        check_wap(spark, table, about)
        yield from judge_settings(self.name, settings, table.branches)
        if self.has_ledgers:
            yield from judge_ledgers(about, self.query, reader.stored(table))

    def _absent(self, apart: Any, *, is_empty: bool) -> CheckFinding:
        about, namespace = self.name.label, TableName(self.name.parts[:-1]).key
        create = f"CREATE NAMESPACE {namespace}"
        if is_empty:
            return note(
                about,
                "the catalog's database has no Iceberg tables yet: Iceberg creates them when the "
                "catalog is first used",
                create,
            )
        if not _has_namespace(apart, self.name):
            return problem(about, f"namespace {namespace} does not exist", create)
        return judge_absent(about, "IcebergSink", create=self.create, form=", in format 2")


def judge_settings(
    name: TableName, settings: TableSettings, branches: Mapping[str, int]
) -> Findings:
    """Yield the findings about a table's settings; `branches` are the heads of its branches."""
    about, properties = name.label, settings.properties
    if settings.format < _FORMAT:
        yield warning(
            about,
            "format 1 has no sequence numbers: once snapshots have expired, less can be determined "
            "about a rollback; and it has no merge-on-read",
            f"ALTER TABLE {name.key} SET TBLPROPERTIES ('format-version'='2')",
        )
    for branch, age in settings.ages.items():
        if is_branch_of_any(branch) and (
            age < _CENTURY * _DAY if age is not None else _AGE in properties
        ):
            yield problem(
                about,
                f"branch {branch}, which keeps a ledger, has a maximum age: expire_snapshots would "
                "drop it",
                f"ALTER TABLE {name.key} REPLACE BRANCH {branch} AS OF VERSION {branches[branch]} "
                f"RETAIN {_CENTURY} DAYS",
            )
    if settings.snapshots > _MANY:
        yield warning(
            about,
            f"it has {settings.snapshots:,} snapshots, which every commit writes again",
            "expire old ones: maintain_iceberg(table, expire_after=timedelta(days=7), "
            "execute=True)",
        )
    versions = properties.get(_METADATA_KEPT, "")
    most = int(versions) if versions.isdigit() else _KEPT_BY_ITSELF
    deletes = properties.get(_DELETES_METADATA, "").strip().lower() == "true"
    if deletes and most < _KEPT_BY_ITSELF:
        yield warning(
            about,
            f"older metadata files are deleted after {most} commits ({_METADATA_KEPT}): if other "
            "writers' snapshots behind main's head have expired too, it may be unclear whether a "
            "batch was rolled back, and the query would stop",
            f"ALTER TABLE {name.key} UNSET TBLPROPERTIES ('{_METADATA_KEPT}')",
        )
    elif not deletes:
        yield note(
            about,
            "older metadata files are never deleted, and each batch writes three",
            f"ALTER TABLE {name.key} SET TBLPROPERTIES ('{_DELETES_METADATA}'='true')",
        )


def _store(session: Any, catalog: str) -> str:
    """Return the type of a catalog, or the class that is configured instead of a type."""
    setting = f"spark.sql.catalog.{catalog}"
    for key in (f"{setting}.type", f"{setting}.catalog-impl", setting):
        value = session.conf.get(key, None)
        if value is not None:
            return str(value).rpartition(".")[2]
    return ""


def _has_database(session: Any, catalog: str) -> bool:
    """Return False if the catalog's database is a file that does not exist; a query creates it."""
    uri = session.conf.get(f"spark.sql.catalog.{catalog}.uri", None) or ""
    file, is_sqlite = uri.removeprefix(_SQLITE).partition("?")[0], uri.startswith(_SQLITE)
    return not is_sqlite or file.startswith(":") or Path(file.removeprefix("file:")).exists()


def _has_namespace(session: Any, name: TableName) -> bool:
    try:
        with java_errors():
            session.sql(f"DESCRIBE NAMESPACE {name.namespace}").collect()
    except ThrownError as error:
        return not error.is_any(*NO_NAMESPACE)  # the first batch will report any other error
    return True
