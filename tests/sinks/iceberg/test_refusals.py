"""Refusals that are not what they say, and sessions whose writes go elsewhere. Without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.errors import (
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg import IcebergSink, connection, sink
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.publication import Publication
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.testing.made_up_entries import entry_of
from tests.sinks.iceberg.test_ledger import Table

ENTRY = entry_of({}, {TopicPartition("flights", 0): OffsetRange(0, 1)})
REFUSED = ThrownError(("org.apache.iceberg.exceptions.CommitFailedException",), "no row updated")


class Catalog(Table):
    """A table whose catalog makes a commit, and then says that it was refused."""

    ends_with_it = False
    readable = True
    version = ""

    def refresh(self) -> None:
        self.version = f"{self.main} {len(self.texts)} {sorted(self.branches)}"
        if self.ends_with_it and self.main is not None:
            raise ThrownError(("org.apache.iceberg.jdbc.UncheckedSQLException",), "gone")

    def uncache(self) -> None:
        """It has no cache."""

    def create_branch(
        self, name: str, *, at: int | None, summary: dict[str, str] | None = None
    ) -> int:
        assert at == self.main
        self.branches[name] = self.add(at, None, **(summary or {}))
        return self.branches[name]

    def is_readable(self, snapshot_id: int) -> bool:
        return self.readable

    def added_since(self, snapshot_id: int) -> list[int]:
        return [at for at in self.texts if at > snapshot_id]

    def drop_branch(self, name: str) -> None:
        del self.branches[name]

    def publish(  # type: ignore[override]  # that of IcebergTable
        self, branch: str, *, summary: dict[str, str] | None, **_: Any
    ) -> None:
        self.move_main(branch, summary)
        raise REFUSED

    def move_main(self, branch: str, summary: dict[str, str] | None) -> None:
        if summary is not None:
            self.write_ledger(branch, summary[PROPERTY])
        Table.publish(self, branch)

    def write_ledger(self, branch: str, text: str) -> None:
        """One more snapshot on a branch."""
        at = self.branches.get(branch, self.main)
        self.branches[branch] = self.add(at, LedgerText.decode(text))


def write(table: Catalog, *, appends: bool) -> int | None:
    def rows(branch: str, summary: Mapping[str, str]) -> int | None:
        if appends:
            table.write_ledger(branch, summary[PROPERTY])
        return None

    publication = Publication(
        label="the table",
        table=table,  # type: ignore[arg-type]
        ledgers=PublishedLedgers("the table", bool),
        rows=SimpleNamespace(appends=appends, write=rows),
        entry=ENTRY,
        accept_expired=False,
    )
    return publication.write().rows


def test_a_refusal_that_nothing_can_be_seen_after_is_no_refusal() -> None:
    """The branch may be the ledger's anchor by then, so it stays."""
    table = Catalog()
    table.ends_with_it = True
    with pytest.raises(OutcomeUnknownError, match="UncheckedSQLException: gone"):
        write(table, appends=True)
    assert table.main in table.branches.values()


@pytest.mark.parametrize("appends", [True, False], ids=["append", "sql"])
def test_a_branch_that_cannot_be_read_is_not_published(appends: bool) -> None:
    """Main would be lost; the batch is written once more, on another one."""
    table = Catalog()
    table.readable = False
    with pytest.raises(RetriableSinkError, match="manifest list") as refused:
        write(table, appends=appends)
    assert "Iceberg 1.11" in str(refused.value.fix)
    assert (table.main, dict(table.branches)) == (None, {})


VALIDATION = "org.apache.iceberg.exceptions.ValidationException"
CLOCK = "Invalid update timestamp 5: before last snapshot log entry at 90000"


class Refusing(Catalog):
    """A table that refuses a commit of one kind for some time; a foreign commit may come before."""

    def __init__(
        self, at: str, error: ThrownError, times: int = 100, *, moves: bool = False
    ) -> None:
        super().__init__()
        self.at, self.error, self.times, self.moves = at, error, times, moves
        self.tried = 0

    def _refuse(self, at: str) -> None:
        if at == self.at:
            self.tried += 1
            if self.tried <= self.times:
                if self.moves:
                    self.commit()
                raise self.error

    def create_branch(
        self, name: str, *, at: int | None, summary: dict[str, str] | None = None
    ) -> int:
        self._refuse("create")
        return super().create_branch(name, at=at, summary=summary)

    def publish(  # type: ignore[override]  # that of IcebergTable
        self, branch: str, *, summary: dict[str, str] | None, **_: Any
    ) -> None:
        self._refuse("publish")
        self.move_main(branch, summary)

    def publish_again(self, staged: str, branch: str, *, summary: dict[str, str], **_: Any) -> None:
        self._refuse("publish")
        del self.branches[staged]
        self.move_main(branch, summary)


@pytest.mark.parametrize("appends", [True, False], ids=["append", "sql"])
@pytest.mark.parametrize("at", ["create", "publish"])
def test_a_refusal_that_is_nobodys_fault_is_not_tried_again(at: str, appends: bool) -> None:
    """Nobody else has changed the table: it would be refused again, and is no conflict."""
    table = Refusing(at, ThrownError((VALIDATION,), "Cannot do that"))
    with pytest.raises(SinkError, match=r"refuses the commit.*Cannot do that") as refused:
        write(table, appends=appends)
    assert not isinstance(refused.value, RetriableSinkError)
    assert table.tried == 1
    assert table.branches == {}


@pytest.mark.parametrize("at", ["create", "publish"])
def test_a_refusal_after_another_commit_is_tried_again(at: str) -> None:
    """What was validated against the table as it was may be true of it as it is."""
    table = Refusing(at, ThrownError((VALIDATION,), "Cannot do that"), times=3, moves=True)
    assert write(table, appends=True) == 5
    assert table.tried == 4


@pytest.mark.parametrize("at", ["create", "publish"])
@pytest.mark.parametrize("moves", [True, False])
def test_a_clock_that_is_behind_is_no_conflict(at: str, moves: bool) -> None:
    """It is named at once, whatever others do; the batch is repeated when some time has passed."""
    table = Refusing(at, ThrownError(("java.lang.IllegalArgumentException",), CLOCK), moves=moves)
    with pytest.raises(RetriableSinkError, match="older") as refused:
        write(table, appends=True)
    assert "clock" in str(refused.value.cause)
    assert table.tried == 1


@pytest.mark.parametrize("apply", [None, "DELETE FROM {table}"])
@pytest.mark.parametrize("name", ["spark.wap.id", "spark.wap.branch"])
def test_writes_that_would_go_elsewhere_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, apply: str | None
) -> None:
    """Before anything runs, unless the table takes no part: rows would be on no branch at all."""
    spark: Any = SimpleNamespace(conf={name: "audit"})
    table: Any = SimpleNamespace(has_property="write.wap.enabled".__eq__)
    monkeypatch.setattr(sink, "find", lambda *_: table)
    plan: Any = None
    with pytest.raises(SettingsError, match=name) as refused:
        IcebergSink("t.t.t", apply=apply).apply(SimpleNamespace(sparkSession=spark), ENTRY, plan)
    assert name in str(refused.value.fix)
    connection.check_wap(spark, SimpleNamespace(has_property=lambda _: False), "t")  # type: ignore[arg-type]  # a stub
    connection.check_wap(SimpleNamespace(conf={}), table, "t")


def test_files_are_not_looked_for_in_a_cached_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's cache can have main as it was before a rollback."""
    fresh: list[object] = []

    class Entries:
        def where(self, _: str) -> Entries:
            assert fresh == [spark]
            return self

        def isEmpty(self) -> bool:  # noqa: N802  # Spark's name
            return False

    def find(session: object, _: object) -> object:
        fresh.append(session)
        return SimpleNamespace(has_property=lambda _: True)

    spark = SimpleNamespace(table=lambda _: Entries(), conf={})
    monkeypatch.setattr(sink, "session", lambda *_: spark)
    monkeypatch.setattr(connection, "find", find)
    assert IcebergSink("lake.db.t")._has_files_of(5)
    spark.conf["spark.wap.branch"] = "audit"
    with pytest.raises(SettingsError, match=r"spark\.wap\.branch"):
        IcebergSink("lake.db.t")._has_files_of(5)
