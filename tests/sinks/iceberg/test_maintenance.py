"""Maintenance: how far snapshots may expire, and the statements. Without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from eo_listener.errors import SettingsError, SinkError
from eo_listener.sinks.iceberg import maintain_iceberg, maintenance
from eo_listener.sinks.iceberg.maintenance import Limit, SnapshotRow, expiry_limit
from eo_listener.sinks.iceberg.names import TableName, new_branch
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.testing.made_up_entries import QUERY

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
OURS = new_branch(QUERY, "run-1")
OTHER = new_branch("another", "run-1")


def chain(*days: int) -> list[SnapshotRow]:
    """Main's snapshots 1, 2, ..., each so many days old."""
    return [
        SnapshotRow(number, number - 1 or None, NOW - timedelta(days=age))
        for number, age in enumerate(days, 1)
    ]


def ago(days: int) -> datetime:
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(
    ("days", "branches", "limit"),
    [
        ((20, 10, 1), {"main": 3}, Limit(ago(7), None)),
        ((20, 10, 1), {"main": 3, OURS: 3}, Limit(ago(7), None)),
        ((20, 10, 1), {"main": 3, OURS: 2}, Limit(ago(7), None)),  # what came after it is young
        ((20, 15, 10, 1), {"main": 4, OURS: 1}, Limit(ago(15), OURS)),
        ((20, 15, 10, 1), {"main": 4, OURS: 2, OTHER: 1}, Limit(ago(15), OTHER)),
        ((20, 8, 10, 1), {"main": 4, OURS: 1}, Limit(ago(10), OURS)),  # clocks differ
        ((20, 15, 10, 1), {"main": 4, "theirs": 1}, Limit(ago(7), None)),
        ((20, 15, 10, 1), {"main": 2, OURS: 4}, Limit(ago(7), None)),  # rolled back
        ((20, 15), {OURS: 2}, Limit(ago(7), None)),  # no main
    ],
)
def test_what_proves_a_ledger_does_not_expire(
    days: tuple[int, ...], branches: Mapping[str, int], limit: Limit
) -> None:
    """Snapshots between a query's last batch and main's head are kept, and nothing else is."""
    assert expiry_limit(chain(*days), branches, ago(7)) == limit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"orphans_after": timedelta(hours=3)}, "orphans_after must be at least 1 day"),
        ({"expire_after": timedelta(days=-1)}, "expire_after must be at least 0:00:00"),
    ],
)
def test_ages_that_would_remove_what_is_in_use(given: Mapping[str, Any], said: str) -> None:
    """They are refused before anything is asked."""
    with pytest.raises(SettingsError, match=said):
        maintain_iceberg("lake.db.t", **given)


@pytest.mark.parametrize(
    ("thrown", "kind", "said"),
    [
        (
            "org.apache.spark.sql.catalyst.parser.ParseException",
            SettingsError,
            "spark.sql.extensions",
        ),
        ("org.apache.iceberg.exceptions.CommitFailedException", SinkError, "changed no rows"),
    ],
)
def test_a_procedure_that_fails_is_explained(thrown: str, kind: type[Exception], said: str) -> None:
    """A session without Iceberg's extensions, and one that others came before."""
    with pytest.raises(kind) as failed, maintenance._failing(TableName.parse("a.b.c")):
        raise ThrownError((thrown,), "password=hush\nmore")
    assert said in f"{failed.value.cause} {failed.value.fix}"  # type: ignore[attr-defined]
    assert "hush" not in str(failed.value)


class Session:
    """A session that answers each statement with the first answer whose key is in it."""

    def __init__(self, answers: Mapping[str, Sequence[Any]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def sql(self, text: str) -> SimpleNamespace:
        self.asked.append(text)
        found = next(rows for key, rows in self.answers.items() if key in text)
        return SimpleNamespace(collect=lambda: found)


class Table:
    """A table of two snapshots; it notes among the statements when its branches are read."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked
        self.branches: dict[str, int] = {}

    def uncache(self) -> None:
        """It has no cache."""

    def refresh(self) -> None:
        self.asked.append("branches")
        self.branches = {"main": 2, OURS: 1}


ANSWERS: Mapping[str, Sequence[Any]] = {
    ".files": [(0, 4, 4 * 1024 * 1024), (1, 2, 10)],
    ".manifests": [(7,)],
    ".snapshots": [(1, None, 0), (2, 1, 1000)],
    "remove_orphan_files": [("file:a",), ("file:b",)],
    "CALL": [Row(done=3)],
}
CHANGING = [
    "rewrite_data_files(table => '`d``b`.`it\\'s`')",
    "rewrite_position_delete_files(table => '`d``b`.`it\\'s`')",
    "rewrite_manifests(table => '`d``b`.`it\\'s`')",
    (
        "expire_snapshots(table => '`d``b`.`it\\'s`', "
        "older_than => TIMESTAMP '1970-01-01 00:00:01.000000 UTC')"
    ),
]


@pytest.mark.parametrize("execute", [False, True])
def test_what_is_asked_and_what_is_done(monkeypatch: pytest.MonkeyPatch, execute: bool) -> None:
    """A dry run asks what there is to do; else each procedure is called, once and in this order."""
    session = Session(ANSWERS)
    monkeypatch.setattr(maintenance, "session", lambda *_: session)
    monkeypatch.setattr(maintenance, "find", lambda *_: Table(session.asked))
    steps = maintain_iceberg("lake.`d``b`.`it's`", execute=execute)
    assert [one.reason.split(" are ")[0] for one in steps] == [
        "4 data files, 1.0 MB each on average",
        "2 position delete files",
        "7 manifests",
        "1 of 2 snapshots",
        "2 orphan files",
    ]
    called = [text.split(".system.")[1] for text in session.asked if text.startswith("CALL")]
    assert called[-1].startswith("remove_orphan_files(")
    assert ("dry_run => true" in called[-1]) is not execute
    assert called[:-1] == (CHANGING if execute else [])
    snapshots = next(text for text in session.asked if ".snapshots" in text)
    assert session.asked.index("branches") < session.asked.index(snapshots)  # others commit
    assert steps[3].retention is not None
    assert f"DROP BRANCH {OURS}" in str(steps[3])
    assert [one.result for one in steps] == (
        [{"done": 3}] * 4 + [{"removed_files_count": 2}] if execute else [None] * 5
    )
