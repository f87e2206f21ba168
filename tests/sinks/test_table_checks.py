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
Expected = tuple[Severity, str, str] | None
"""The only finding that is not fine: its level, and parts of its problem and advice."""


def check(findings: Iterable[CheckFinding], expected: Expected) -> None:
    unlike = [finding for finding in findings if finding.level is not FINE]
    assert [finding.level for finding in unlike] == ([] if expected is None else [expected[0]])
    if expected is not None:
        assert expected[1] in unlike[0].what
        assert expected[2] in unlike[0].advice


DELETES = "write.metadata.delete-after-commit.enabled"
AGE, KEPT = "history.expire.max-ref-age-ms", "write.metadata.previous-versions-max"
BRANCH, DAY = new_branch("q", "run"), 86_400_000
TABLE = TableSettings("file:/lake", 2, 7, {DELETES: "true"}, {"main": None, BRANCH: 2**63 - 1})
AGED = {DELETES: "true", AGE: "1"}
REPLACE = f"BRANCH {BRANCH} AS OF VERSION 5 RETAIN 36500 DAYS"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"format": 1}, (WARNING, "", "'format-version'='2'")),
        ({"ages": {BRANCH: DAY}}, (PROBLEM, "maximum age", REPLACE)),
        ({"ages": {BRANCH: None}, "properties": AGED}, (PROBLEM, "maximum age", REPLACE)),
        ({"snapshots": 3000}, (WARNING, "3,000", "maintain_iceberg")),
        ({"properties": {}}, (NOTE, "never deleted", f"'{DELETES}'='true'")),
        ({"properties": {DELETES: "TRUE", KEPT: "5"}}, (WARNING, "5 commits", f"('{KEPT}')")),
        ({}, None),
        ({"ages": {"audit": DAY}}, None),  # a branch of somebody else
        ({"properties": AGED}, None),  # the sink's branches have an age of their own
    ],
)
def test_an_iceberg_table(change: dict[str, Any], expected: Expected) -> None:
    """Each setting that stops an IcebergSink, now or later, with the statement that mends it."""
    check(judge_settings(NAME, TABLE._replace(**change), {BRANCH: 5}), expected)


RETENTION = "delta.logRetentionDuration"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.appendOnly": "TRUE"}, (NOTE, "an upsert", "ALTER TABLE d UNSET")),
        ({RETENTION: "interval 12 hours"}, (WARNING, "", f"d UNSET TBLPROPERTIES ('{RETENTION}')")),
        ({RETENTION: "1 year 2 months"}, (NOTE, "1 year", "")),
        ({RETENTION: "interval 30 days"}, None),
        ({RETENTION: "interval 1 hour", "delta.enableExpiredLogCleanup": "false"}, None),
        ({"delta.columnMapping.mode": "name"}, None),
    ],
)
def test_a_delta_table(properties: dict[str, str], expected: Expected) -> None:
    """Each property that stops a DeltaSink, now or later, with the statement that mends it."""
    check(judge_properties("a", "d", properties), expected)


def test_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local folder is judged by its nearest existing parent; other storage is not tried."""
    assert judge_storage("a", (tmp_path / "no such" / "t").as_uri()).what.endswith(str(tmp_path))
    away = judge_storage("a", "s3://key:hidden@b/t")
    assert (away.level, "hidden" in away.what) == (NOTE, False)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert judge_storage("a", str(tmp_path)).level is PROBLEM
