"""What facts mean for an IcebergSink and a DeltaSink: tables over the judges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey, StoredLedger, TakenBack
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.preflight.findings import CheckFinding, Level
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
    there=True,
    properties=WELL,
    storage=Storage(place="/lake", writable=True),
    ledgers=LedgerFacts(stored=(STORED,)),
)
RUNTIME = RuntimeFacts(
    spark="4.0.0",
    scala="2.13",
    wanted="g:runtime:1",
    supported="3.5 and 4.0",
    given={"r.jar": None},
)
AT = TablePlan(kind=DELTA, name="/lake/d", query="q")
LOG = DeltaFacts(
    release="4.0.1",
    there=True,
    reference="delta.`/lake/d`",
    protocol="Protocol(1,2)",
    storage=Storage(place="/lake/d", writable=True),
    ledgers=LedgerFacts(stored=(STORED,)),
)


def told(findings: Iterable[CheckFinding]) -> CheckFinding:
    """The only finding that is not fine."""
    (one,) = (one for one in findings if one.level is not Level.FINE)
    return one


def well(findings: Iterable[CheckFinding]) -> list[str]:
    found = list(findings)
    assert {one.level for one in found} == {Level.FINE}
    return [one.what for one in found]


def test_all_is_well() -> None:
    """A table that is there, and one that the first batch makes; the ledger's offsets are said."""
    assert well(judge_iceberg(PLAN, THERE))[-1] == "the ledger of 'q' has flights-0 at 7"
    assert well(judge_delta(AT, LOG))[-1] == "the ledger of 'q' has flights-0 at 7"
    absent = well(judge_iceberg(PLAN, IcebergFacts(store="jdbc")))
    assert absent == ["it is not there: the first batch makes it, in format 2"]
    assert well(judge_delta(AT, DeltaFacts())) == ["it is not there: the first batch makes it"]
    assert well(judge_runtime(ICEBERG, RUNTIME)) == ["r.jar fits"]
    empty = replace(THERE, ledgers=LedgerFacts())
    assert well(judge_iceberg(PLAN, empty))[-1].startswith("it has no ledger yet")


@pytest.mark.parametrize(
    ("change", "level", "what", "advice"),
    [
        ({"wanted": None}, Level.PROBLEM, "there is no Iceberg's runtime", "use Spark 3.5 and 4.0"),
        ({"given": {"x": "Spark 3.5"}}, Level.PROBLEM, "x is for Spark 3.5", "by g:runtime:1"),
        ({"given": {}}, Level.NOTE, "has Iceberg's runtime:", "--packages g:runtime:1"),
        ({"lacking": ("a=b",)}, Level.NOTE, "has a=b:", "spark-submit --conf a=b"),
    ],
)
def test_the_runtime(change: dict[str, Any], level: Level, what: str, advice: str) -> None:
    """One that does not fit, or is not given: each with the coordinates of the one that fits."""
    found = told(judge_runtime(ICEBERG, replace(RUNTIME, **change)))
    assert found.level is level
    assert what in found.what
    assert advice in found.advice


@pytest.mark.parametrize(
    ("change", "level", "what", "advice"),
    [
        ({"forwards": False}, Level.PROBLEM, "cannot move main on", "from 1.10 on"),
        ({"error": SettingsError("away", fix="Go")}, Level.PROBLEM, "away", "Go"),
        ({"store": "hadoop"}, Level.WARNING, "renames a file atomically", "type=jdbc"),
        ({"there": False, "namespace": False}, Level.PROBLEM, "namespace lake.db", "CREATE NAMESP"),
        (
            {"there": False, "namespace": None},
            Level.NOTE,
            "no tables of Iceberg's",
            "CREATE NAMESP",
        ),
        ({"format": 1}, Level.WARNING, "no sequence numbers", "'format-version'='2'"),
        ({"storage": Storage(place="s3://b", writable=None)}, Level.NOTE, "to s3://b is not", ""),
        (
            {"storage": Storage(place="/l", writable=False)},
            Level.PROBLEM,
            "not write to /l",
            "right",
        ),
        (
            {"expiring": {"eo_b": 5}},
            Level.PROBLEM,
            "given an age",
            "BRANCH eo_b AS OF VERSION 5 RE",
        ),
        ({"snapshots": 3000}, Level.WARNING, "3,000 snapshots", "maintain_iceberg"),
        ({"properties": {}}, Level.NOTE, "never deleted", "delete-after-commit.enabled'='true'"),
        (
            {"properties": {**WELL, "write.metadata.previous-versions-max": "5"}},
            Level.WARNING,
            "deleted after 5 commits",
            "UNSET TBLPROPERTIES ('write.metadata.previous-versions-max')",
        ),
        (
            {"properties": {**WELL, "write.wap.enabled": "true"}, "wap": "spark.wap.id"},
            Level.PROBLEM,
            "would not come to the branch",
            "take spark.wap.id away",
        ),
        ({"ledgers": LedgerFacts(error=SinkError("torn", fix="M"))}, Level.PROBLEM, "torn", "M"),
    ],
)
def test_an_iceberg_table(change: dict[str, Any], level: Level, what: str, advice: str) -> None:
    """Each thing that keeps an IcebergSink from writing, or would later, with what to type."""
    found = told(judge_iceberg(PLAN, replace(THERE, **change)))
    assert (found.level, found.about) == (level, f"Iceberg table {NAME}")
    assert what in found.what
    assert advice in found.advice


def test_what_is_harmless_is_not_said() -> None:
    """A WAP setting alone, WAP in the table alone, and the age that branches have by themselves."""
    well(judge_iceberg(PLAN, replace(THERE, wap="spark.wap.id")))
    well(judge_iceberg(PLAN, replace(THERE, properties={**WELL, "write.wap.enabled": "true"})))
    ages = {"history.expire.max-ref-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}
    well(judge_iceberg(PLAN, replace(THERE, properties={**WELL, **ages})))


@pytest.mark.parametrize(
    ("change", "level", "what", "advice"),
    [
        ({"error": SettingsError("S3", fix="Set it")}, Level.PROBLEM, "S3", "Set it"),
        ({"there": False, "lasting": False}, Level.WARNING, "in memory", "catalogImplementation"),
        (
            {"there": False, "database": False},
            Level.PROBLEM,
            "there is no database",
            "CREATE DATAB",
        ),
        ({"properties": {"delta.appendOnly": "TRUE"}}, Level.NOTE, "an upsert", "UNSET"),
        (
            {"properties": {"delta.logRetentionDuration": "interval 12 hours"}},
            Level.WARNING,
            "loses its ledger",
            "ALTER TABLE delta.`/lake/d` UNSET TBLPROPERTIES ('delta.logRetentionDuration')",
        ),
        (
            {"properties": {"delta.logRetentionDuration": "1 year 2 months"}},
            Level.NOTE,
            "1 year",
            "",
        ),
    ],
)
def test_a_delta_table(change: dict[str, Any], level: Level, what: str, advice: str) -> None:
    """Each thing that keeps a DeltaSink from writing, or would later, with what to type."""
    found = told(judge_delta(AT, replace(LOG, **change)))
    assert (found.level, found.about) == (level, "Delta table /lake/d")
    assert what in found.what
    assert advice in found.advice


@pytest.mark.parametrize(
    "given",
    [
        {"delta.logRetentionDuration": "interval 30 days"},
        {"delta.logRetentionDuration": "interval 1 hour", "delta.enableExpiredLogCleanup": "false"},
        {"delta.columnMapping.mode": "name"},
    ],
)
def test_what_a_delta_table_may_have(given: dict[str, str]) -> None:
    """A long retention, none that is carried out, and columns that are mapped."""
    well(judge_delta(AT, replace(LOG, properties=given)))


def test_a_table_that_must_be_there() -> None:
    """With create=False no batch makes it."""
    for found in (
        told(judge_iceberg(replace(PLAN, create=False), IcebergFacts())),
        told(judge_delta(replace(AT, create=False), DeltaFacts())),
    ):
        assert (found.level, found.what[:15]) == (Level.PROBLEM, "it is not there")


def test_ledgers() -> None:
    """A table that was taken back is a problem; a query that has none is told who has."""
    back = TakenBack("main was rolled back", "CALL x")
    taken = replace(THERE, ledgers=LedgerFacts(stored=(replace(STORED, taken_back=back),)))
    found = told(judge_iceberg(PLAN, taken))
    assert found.level is Level.PROBLEM
    assert found.what == "ledger of 'q': main was rolled back"
    assert found.advice.startswith('CALL x; or starting_offsets(ledger=sink, query="q"')
    found = told(judge_iceberg(replace(PLAN, query="p"), taken))
    assert (found.level, found.what) == (Level.NOTE, "it has no ledger of 'p', but of 'q'")
    told(judge_iceberg(replace(PLAN, query=None), taken))
