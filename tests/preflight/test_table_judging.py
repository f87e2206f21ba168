"""What facts mean for an IcebergSink and a DeltaSink: tables over the judges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.audit.position_finding import Severity
from eo_listener.errors import SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey, StoredLedger, TableRollback
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.preflight.findings import CheckFinding
from eo_listener.preflight.table_checks import judge_delta, judge_iceberg, judge_runtime
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
from eo_listener.testing.made_up_entries import entry_of

TP = TopicPartition("flights", 0)
NAME = "lake.db.delays"
PLAN = TablePlan(kind=ICEBERG, name=NAME, query="q")
HEADS = {TP: entry_of({}, {TP: OffsetRange(0, 7)}, batch_id=0).head(TP)}
STORED = StoredLedger(key=LedgerKey(NAME, "q"), heads=HEADS, moved_at={})
WELL = {"write.metadata.delete-after-commit.enabled": "true"}
THERE = IcebergFacts(
    release="1.11.0",
    store="jdbc",
    exists=True,
    properties=WELL,
    storage=Storage(place="/lake", writable=True),
    ledgers=LedgerFacts(stored=(STORED,)),
)
RUNTIME = RuntimeFacts(
    spark="4.0.0",
    scala="2.13",
    runtime="g:runtime:1",
    supported="3.5 and 4.0",
    installed={"r.jar": None},
)
AT = TablePlan(kind=DELTA, name="/lake/d", query="q")
LOG = DeltaFacts(
    release="4.0.1",
    exists=True,
    reference="delta.`/lake/d`",
    protocol="Protocol(1,2)",
    storage=Storage(place="/lake/d", writable=True),
    ledgers=LedgerFacts(stored=(STORED,)),
)


NOTE, WARNING, PROBLEM = Severity.NOTE, Severity.WARNING, Severity.PROBLEM
Said = tuple[Severity, str, str]  # level, and a part each of what is found and of what to do


def only(findings: Iterable[CheckFinding]) -> CheckFinding:
    """The only finding that is not fine."""
    (one,) = (one for one in findings if one.level is not Severity.FINE)
    return one


def told(findings: Iterable[CheckFinding], about: str, said: Said) -> None:
    one, (level, what, advice) = only(findings), said
    assert (one.level, one.about) == (level, about)
    assert what in one.what
    assert advice in one.advice


def well(findings: Iterable[CheckFinding]) -> list[str]:
    found = list(findings)
    assert {one.level for one in found} == {Severity.FINE}
    return [one.what for one in found]


def test_all_is_well() -> None:
    """A table that is there, and one that the first batch makes; the ledger's offsets are said."""
    assert well(judge_iceberg(PLAN, THERE))[-1] == "the ledger of 'q' has flights-0 at 7"
    assert well(judge_delta(AT, LOG))[-1] == "the ledger of 'q' has flights-0 at 7"
    (absent,) = well(judge_iceberg(PLAN, IcebergFacts(store="jdbc")))
    assert "format 2" in absent
    (absent,) = well(judge_delta(AT, DeltaFacts()))
    assert "first batch creates it" in absent
    assert well(judge_runtime(ICEBERG, RUNTIME)) == ["r.jar fits"]
    empty = replace(THERE, ledgers=LedgerFacts())
    assert well(judge_iceberg(PLAN, empty))[-1].startswith("it has no ledger yet")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"runtime": None}, (PROBLEM, "", "Spark 3.5 and 4.0")),
        ({"installed": {"x": "Spark 3.5"}}, (PROBLEM, "x is for Spark 3.5", "by g:runtime:1")),
        ({"installed": {}}, (NOTE, "", "--packages g:runtime:1")),
        ({"lacking": ("a=b",)}, (NOTE, "a=b", "spark-submit --conf a=b")),
    ],
)
def test_the_runtime(change: dict[str, Any], said: Said) -> None:
    """One that does not fit, or is not given: each with the coordinates of the one that fits."""
    told(judge_runtime(ICEBERG, replace(RUNTIME, **change)), "Spark 4.0.0", said)


FEW = {**WELL, "write.metadata.previous-versions-max": "5"}
UNSET_FEW = "UNSET TBLPROPERTIES ('write.metadata.previous-versions-max')"
WAP = {**WELL, "write.wap.enabled": "true"}
AWAY, TORN = SettingsError("away", fix="Go"), SinkError("torn", fix="Mend")
S3, SHUT = Storage(place="s3://b", writable=None), Storage(place="/l", writable=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"forwards": False}, (PROBLEM, "cannot fast-forward main", "1.10")),
        ({"error": AWAY}, (PROBLEM, "away", "Go")),
        ({"store": "hadoop"}, (WARNING, "", "type=jdbc")),
        ({"exists": False, "namespace": False}, (PROBLEM, "lake.db", "CREATE NAMESPACE")),
        ({"exists": False, "namespace": None}, (NOTE, "", "CREATE NAMESPACE")),
        ({"format": 1}, (WARNING, "", "'format-version'='2'")),
        ({"storage": S3}, (NOTE, "s3://b", "")),
        ({"storage": SHUT}, (PROBLEM, "/l", "allow the user")),
        ({"expiring": {"eo_b": 5}}, (PROBLEM, "", "BRANCH eo_b AS OF VERSION 5 RETAIN")),
        ({"snapshots": 3000}, (WARNING, "3,000", "maintain_iceberg")),
        ({"properties": {}}, (NOTE, "never deleted", "delete-after-commit.enabled'='true'")),
        ({"properties": FEW}, (WARNING, "5 commits", UNSET_FEW)),
        ({"properties": WAP, "wap": "spark.wap.id"}, (PROBLEM, "", "remove spark.wap.id")),
        ({"ledgers": LedgerFacts(error=TORN)}, (PROBLEM, "torn", "Mend")),
    ],
)
def test_an_iceberg_table(change: dict[str, Any], said: Said) -> None:
    """Each thing that keeps an IcebergSink from writing, or would later, with what to type."""
    told(judge_iceberg(PLAN, replace(THERE, **change)), f"Iceberg table {NAME}", said)


def test_what_is_harmless_is_not_said() -> None:
    """A WAP setting alone, WAP in the table alone, and the age that branches have by themselves."""
    well(judge_iceberg(PLAN, replace(THERE, wap="spark.wap.id")))
    well(judge_iceberg(PLAN, replace(THERE, properties={**WELL, "write.wap.enabled": "true"})))
    ages = {"history.expire.max-ref-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}
    well(judge_iceberg(PLAN, replace(THERE, properties={**WELL, **ages})))


KEPT = "delta.logRetentionDuration"
UNSET_KEPT = f"ALTER TABLE delta.`/lake/d` UNSET TBLPROPERTIES ('{KEPT}')"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"error": AWAY}, (PROBLEM, "away", "Go")),
        ({"exists": False, "lasting": False}, (WARNING, "in memory", "catalogImplementation")),
        ({"exists": False, "database": False}, (PROBLEM, "", "CREATE DATABASE")),
        ({"properties": {"delta.appendOnly": "TRUE"}}, (NOTE, "an upsert", "UNSET")),
        ({"properties": {KEPT: "interval 12 hours"}}, (WARNING, "", UNSET_KEPT)),
        ({"properties": {KEPT: "1 year 2 months"}}, (NOTE, "1 year", "")),
    ],
)
def test_a_delta_table(change: dict[str, Any], said: Said) -> None:
    """Each thing that keeps a DeltaSink from writing, or would later, with what to type."""
    told(judge_delta(AT, replace(LOG, **change)), "Delta table /lake/d", said)


@pytest.mark.parametrize(
    "given",
    [
        {KEPT: "interval 30 days"},
        {KEPT: "interval 1 hour", "delta.enableExpiredLogCleanup": "false"},
        {"delta.columnMapping.mode": "name"},
    ],
)
def test_what_a_delta_table_may_have(given: dict[str, str]) -> None:
    """A long retention, none that is carried out, and columns that are mapped."""
    well(judge_delta(AT, replace(LOG, properties=given)))


def test_a_table_that_must_be_there() -> None:
    """With create=False no batch makes it."""
    for findings in (
        judge_iceberg(replace(PLAN, create=False), IcebergFacts()),
        judge_delta(replace(AT, create=False), DeltaFacts()),
    ):
        assert only(findings).level is PROBLEM


def test_ledgers() -> None:
    """A table that was taken back is a problem; a query that has none is told who has."""
    back = TableRollback("main was rolled back", "CALL x")
    taken = replace(THERE, ledgers=LedgerFacts(stored=(replace(STORED, rollback=back),)))
    found = only(judge_iceberg(PLAN, taken))
    assert found.level is PROBLEM
    assert back.cause in found.what
    assert found.advice.startswith('CALL x; or starting_offsets(ledger=sink, query="q"')
    found = only(judge_iceberg(replace(PLAN, query="p"), taken))
    assert (found.level, "'p'" in found.what, "'q'" in found.what) == (NOTE, True, True)
    only(judge_iceberg(replace(PLAN, query=None), taken))
