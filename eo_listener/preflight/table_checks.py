"""Checks if a sink can write its table with this Spark and its settings.

Reads and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from eo_listener.errors import few
from eo_listener.model.ledger import StoredLedger
from eo_listener.preflight.findings import (
    CheckFinding,
    Findings,
    failed,
    fine,
    note,
    problem,
    warning,
)
from eo_listener.preflight.table_facts import (
    DELTA,
    ICEBERG,
    DeltaFacts,
    IcebergFacts,
    LedgerFacts,
    RuntimeFacts,
    Storage,
    TablePlan,
)

LOG_RETENTION: Final = "delta.logRetentionDuration"
LOG_CLEANUP: Final = "delta.enableExpiredLogCleanup"
APPEND_ONLY: Final = "delta.appendOnly"
COLUMN_MAPPING: Final = "delta.columnMapping.mode"

_LIBRARY: Final = {ICEBERG: "Iceberg's runtime", DELTA: "Delta Lake"}
_OPTION: Final = {ICEBERG: "iceberg=True", DELTA: "delta=True"}
_DELETES_METADATA: Final = "write.metadata.delete-after-commit.enabled"
_METADATA_KEPT: Final = "write.metadata.previous-versions-max"
_KEPT_BY_ITSELF: Final = 100
_FORMAT: Final = 2
_WAP: Final = "write.wap.enabled"
_MANY: Final = 2000  # snapshots: about 3 MB of metadata, which each commit of a batch writes
_CENTURY: Final = 36500
_LEAST_RETENTION: Final = timedelta(days=7)
_AGE: Final = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)


def judge_runtime(kind: str, facts: RuntimeFacts) -> Findings:
    """Yield the findings about the libraries and settings of the query's Spark."""
    about, library = f"Spark {facts.spark}", _LIBRARY[kind]
    if facts.runtime is None:
        yield problem(
            about,
            f"no {library} exists for it (Scala {facts.scala})",
            f"use Spark {facts.supported}",
        )
        return
    for name, made_for in facts.installed.items():
        if made_for is None:
            yield fine(about, f"{name} fits")
        else:
            yield problem(
                about,
                f"{name} is for {made_for}, but this is Spark {facts.spark} with Scala "
                f"{facts.scala}",
                f"replace it by {facts.runtime}",
            )
    options = [] if facts.installed else [f"--packages {facts.runtime}"]
    options += [f"--conf {setting}" for setting in facts.lacking]
    if options:
        lacking = [*([] if facts.installed else [library]), *facts.lacking]
        yield note(
            about,
            f"neither --spark-conf nor spark-defaults.conf has {few(lacking)}; this command adds "
            "it to its own session",
            f"configure(builder, {_OPTION[kind]}) adds it to the query's session; or spark-submit "
            f"{' '.join(options)}",
        )


def judge_iceberg(plan: TablePlan, facts: IcebergFacts) -> Findings:
    """Yield the findings about an IcebergSink's table."""
    about = f"Iceberg table {plan.name}"
    if facts.release:
        yield _iceberg_release(about, facts)
    if facts.error is not None:
        yield failed(about, facts.error)
        return
    if facts.store == "hadoop":
        yield warning(
            about,
            "its catalog (type hadoop) detects a conflicting commit only if the storage renames "
            "files atomically, which S3 does not",
            "use a catalog in a database (type=jdbc), Hive or REST",
        )
    if not facts.exists:
        yield from _absent_iceberg(about, plan, facts)
        return
    yield fine(about, f"it exists, in format {facts.format} ({facts.store} catalog)")
    if facts.format < _FORMAT:
        yield warning(
            about,
            "format 1 has no sequence numbers: once snapshots have expired, less can be determined "
            "about a rollback; and it has no merge-on-read",
            f"ALTER TABLE {plan.name} SET TBLPROPERTIES ('format-version'='2')",
        )
    yield from _storage(about, facts.storage)
    yield from _iceberg_settings(about, plan, facts)
    if not plan.letters:
        yield from judge_ledgers(about, plan, facts.ledgers)


def judge_delta(plan: TablePlan, facts: DeltaFacts) -> Findings:
    """Yield the findings about a DeltaSink's table."""
    about = f"Delta table {plan.name}"
    if facts.release:
        yield fine(about, f"Delta Lake {facts.release}")
    if facts.error is not None:
        yield failed(about, facts.error)
        return
    if not facts.lasting:
        yield warning(
            about,
            "Spark's catalog is in memory here, so the name means nothing after the application "
            "ends: the next application would create another table",
            "if the query has a metastore, pass its settings: --spark-conf "
            "spark.sql.catalogImplementation=hive; if not, write to a path: DeltaSink(path=...)",
        )
        return
    if not facts.exists:
        yield from _absent_delta(about, plan, facts)
        return
    yield fine(about, f"it exists, with protocol {facts.protocol}")
    yield from _storage(about, facts.storage)
    yield from _delta_settings(about, facts.reference, facts.properties)
    yield from judge_ledgers(about, plan, facts.ledgers)


def judge_ledgers(about: str, plan: TablePlan, facts: LedgerFacts) -> Findings:
    """Yield the findings about the ledgers in a table."""
    if facts.error is not None:
        yield failed(about, facts.error)
        return
    ledgers = {ledger.key.query: ledger for ledger in facts.stored}
    if not ledgers:
        yield fine(about, "it has no ledger yet: the first batch creates it")
        return
    if plan.query is not None and plan.query not in ledgers:
        yield note(
            about,
            f"it has no ledger of {plan.query!r}, but of {few(sorted(map(repr, ledgers)))}",
            "if the query has a new name, use the old one: exactly_once(..., name=...)",
        )
    for query, stored in sorted(ledgers.items()):
        if plan.query in (None, query):
            yield _ledger(about, query, stored)


def _ledger(about: str, query: str, stored: StoredLedger) -> CheckFinding:
    if stored.rollback is not None:
        cause, fix = stored.rollback
        restart = (
            f'starting_offsets(ledger=sink, query="{query}", bootstrap_servers=...) with a new '
            "checkpointLocation reads those offsets again"
        )
        advice = f"{fix}; or {restart}" if fix else restart
        return problem(about, f"ledger of {query!r}: {cause}", advice)
    heads = [f"{tp} at {head.range.until}" for tp, head in sorted(stored.heads.items())]
    return fine(about, f"the ledger of {query!r} has {few(heads)}")


def _iceberg_release(about: str, facts: IcebergFacts) -> CheckFinding:
    if facts.forwards:
        return fine(about, f"Iceberg {facts.release} can fast-forward branches")
    return problem(
        about,
        f"Iceberg {facts.release} cannot fast-forward main to a branch, and the sink needs this to "
        "publish a batch",
        "use release 1.10 or later: configure(builder, iceberg=True) adds one",
    )


def _absent_iceberg(about: str, plan: TablePlan, facts: IcebergFacts) -> Findings:
    if facts.namespace is None:
        yield note(
            about,
            "the catalog's database has no Iceberg tables yet: Iceberg creates them when the "
            "catalog is first used",
            f"CREATE NAMESPACE {_parent(plan.name)}",
        )
    elif not facts.namespace:
        yield problem(
            about,
            f"namespace {_parent(plan.name)} does not exist",
            f"CREATE NAMESPACE {_parent(plan.name)}",
        )
    elif plan.create:
        yield fine(about, "it does not exist: the first batch creates it, in format 2")
    else:
        yield _not_made(about, plan)


def _absent_delta(about: str, plan: TablePlan, facts: DeltaFacts) -> Findings:
    if not facts.database:
        yield problem(
            about,
            f"database {_parent(plan.name)} does not exist",
            f"CREATE DATABASE {_parent(plan.name)}",
        )
    elif plan.create:
        yield fine(about, "it does not exist: the first batch creates it")
        yield from _storage(about, facts.storage)
    else:
        yield _not_made(about, plan)


def _not_made(about: str, plan: TablePlan) -> CheckFinding:
    return problem(
        about,
        "it does not exist, and with create=False no batch creates it",
        f"create it, or remove create=False from {plan.sink}",
    )


def _storage(about: str, storage: Storage | None) -> Findings:
    if storage is None:
        return
    if storage.writable is None:
        yield note(
            about,
            f"this user's permission to write to {storage.place} was not tried; the first batch "
            "tries it",
        )
    elif storage.writable:
        yield fine(about, f"this user may write to {storage.place}")
    else:
        yield problem(
            about,
            f"this user may not write to {storage.place}",
            "allow the user of the driver and the executors to write there",
        )


def _iceberg_settings(about: str, plan: TablePlan, facts: IcebergFacts) -> Findings:
    properties = facts.properties
    if facts.wap is not None and _lowered(properties.get(_WAP)) == "true":
        yield problem(
            about,
            f"it has {_WAP}, and the session has {facts.wap}: rows would not be written to the "
            "branch of the batch",
            f"remove {facts.wap} from the settings of the query",
        )
    for branch, snapshot in facts.expiring.items():
        yield problem(
            about,
            f"branch {branch}, which keeps a ledger, has a maximum age: expire_snapshots would "
            "drop it",
            f"ALTER TABLE {plan.name} REPLACE BRANCH {branch} AS OF VERSION {snapshot} "
            f"RETAIN {_CENTURY} DAYS",
        )
    if facts.snapshots > _MANY:
        yield warning(
            about,
            f"it has {facts.snapshots:,} snapshots, which every commit writes again",
            "expire old ones: maintain_iceberg(table, expire_after=timedelta(days=7), "
            "execute=True)",
        )
    versions = properties.get(_METADATA_KEPT, "")
    most = int(versions) if versions.isdigit() else _KEPT_BY_ITSELF
    if _lowered(properties.get(_DELETES_METADATA)) == "true" and most < _KEPT_BY_ITSELF:
        yield warning(
            about,
            f"older metadata files are deleted after {most} commits ({_METADATA_KEPT}): if other "
            "writers' snapshots behind main's head have expired too, it may be unclear whether a "
            "batch was rolled back, and the query would stop",
            f"ALTER TABLE {plan.name} UNSET TBLPROPERTIES ('{_METADATA_KEPT}')",
        )
    elif _lowered(properties.get(_DELETES_METADATA)) != "true":
        yield note(
            about,
            "older metadata files are never deleted, and each batch writes three",
            f"ALTER TABLE {plan.name} SET TBLPROPERTIES ('{_DELETES_METADATA}'='true')",
        )


def _delta_settings(about: str, table: str, properties: Mapping[str, str]) -> Findings:
    if _lowered(properties.get(APPEND_ONLY)) == "true":
        yield note(
            about,
            f"it has {APPEND_ONLY}: an upsert that changes a row fails",
            f"use mode=\"append\"; or ALTER TABLE {table} UNSET TBLPROPERTIES ('{APPEND_ONLY}')",
        )
    mapping = properties.get(COLUMN_MAPPING, "none")
    if mapping != "none":
        yield fine(about, f"it has {COLUMN_MAPPING}={mapping}: columns are matched by name")
    retention = properties.get(LOG_RETENTION)
    if retention is None or _lowered(properties.get(LOG_CLEANUP)) == "false":
        return
    age = _age(retention)
    if age is None:
        yield note(
            about,
            f"it has {LOG_RETENTION}={retention}",
            "if a query writes nothing for that long while others do, it loses its ledger",
        )
    elif age < _LEAST_RETENTION:
        yield warning(
            about,
            f"it has {LOG_RETENTION}={retention}: if a query writes nothing for that long "
            "while others do, it loses its ledger",
            f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{LOG_RETENTION}'); Delta's default is 30 "
            "days",
        )


def _age(text: str) -> timedelta | None:
    """Parse an interval in a Delta table property, or return None if it has several units."""
    match = _AGE.fullmatch(text.strip())
    return None if match is None else timedelta(**{f"{match[2].lower()}s": int(match[1])})


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _lowered(value: str | None) -> str:
    return (value or "").strip().lower()
