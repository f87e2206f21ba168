"""Findings about a table's settings and about its storage: tables over the judges."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from eo_listener.model.check_finding import CheckFinding, Severity
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.delta.check import judge_properties
from eo_listener.sinks.iceberg.check import judge_settings
from eo_listener.sinks.iceberg.names import TableName, new_branch
from eo_listener.sinks.table_checks import judge_storage
from eo_listener.spark.jvm.iceberg_table import TableSettings

TP = TopicPartition("flights", 0)
NAME = TableName.parse("lake.db.delays")
FINE, NOTE, WARNING, PROBLEM = Severity.FINE, Severity.NOTE, Severity.WARNING, Severity.PROBLEM
Said = tuple[Severity, str, str]  # level, and a part each of what is every and of what to do


def told(findings: Iterable[CheckFinding], about: str, expected: Said) -> None:
    """The only finding that is not fine is this one."""
    (finding,) = (finding for finding in findings if finding.level is not FINE)
    level, what, advice = expected
    assert (finding.level, finding.about) == (level, about)
    assert what in finding.what
    assert advice in finding.advice


DELETES = "write.metadata.delete-after-commit.enabled"
AGE, KEPT = "history.expire.max-ref-age-ms", "write.metadata.previous-versions-max"
BRANCH, DAY = new_branch("q", "run"), 86_400_000
TABLE = TableSettings("file:/lake", 2, 7, {DELETES: "true"}, {"main": None, BRANCH: 2**63 - 1})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"format": 1}, (WARNING, "", "'format-version'='2'")),
        ({"ages": {BRANCH: DAY}}, (PROBLEM, "", f"BRANCH {BRANCH} AS OF VERSION 5 RETAIN")),
        (
            {"ages": {BRANCH: None}, "properties": {DELETES: "true", AGE: "1"}},
            (PROBLEM, "maximum age", "36500 DAYS"),
        ),
        ({"snapshots": 3000}, (WARNING, "3,000", "maintain_iceberg")),
        ({"properties": {}}, (NOTE, "never deleted", f"'{DELETES}'='true'")),
        (
            {"properties": {DELETES: "TRUE", KEPT: "5"}},
            (WARNING, "5 commits", f"UNSET TBLPROPERTIES ('{KEPT}')"),
        ),
    ],
)
def test_an_iceberg_table(change: dict[str, Any], expected: Said) -> None:
    """Each setting that stops an IcebergSink, now or later, with the statement that mends it."""
    told(judge_settings(NAME, TABLE._replace(**change), {BRANCH: 5}), NAME.label, expected)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"ages": {"audit": DAY}},  # a branch of somebody else
        {"properties": {DELETES: "true", AGE: "1"}},  # the sink's branches have an age of their own
    ],
)
def test_harmless_settings(change: dict[str, Any]) -> None:
    """Ages of other branches, and the age that a sink's branches override."""
    assert not list(judge_settings(NAME, TABLE._replace(**change), {BRANCH: 5}))


RETENTION = "delta.logRetentionDuration"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.appendOnly": "TRUE"}, (NOTE, "an upsert", "ALTER TABLE d UNSET")),
        (
            {RETENTION: "interval 12 hours"},
            (WARNING, "", f"ALTER TABLE d UNSET TBLPROPERTIES ('{RETENTION}')"),
        ),
        ({RETENTION: "1 year 2 months"}, (NOTE, "1 year", "")),
    ],
)
def test_a_delta_table(properties: dict[str, str], expected: Said) -> None:
    """Each property that stops a DeltaSink, now or later, with the statement that mends it."""
    told(judge_properties("a", "d", properties), "a", expected)


@pytest.mark.parametrize(
    "properties",
    [
        {RETENTION: "interval 30 days"},
        {RETENTION: "interval 1 hour", "delta.enableExpiredLogCleanup": "false"},
        {"delta.columnMapping.mode": "name"},
    ],
)
def test_harmless_properties(properties: dict[str, str]) -> None:
    """A long retention, a short one that is switched off, and mapped columns."""
    assert {finding.level for finding in judge_properties("a", "d", properties)} <= {FINE}


def test_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local folder is judged by its nearest existing parent; other storage is not tried."""
    assert judge_storage("a", (tmp_path / "no such" / "t").as_uri()).what.endswith(str(tmp_path))
    away = judge_storage("a", "s3://key:hidden@b/t")
    assert (away.level, "hidden" in away.what) == (NOTE, False)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert judge_storage("a", str(tmp_path)).level is PROBLEM
