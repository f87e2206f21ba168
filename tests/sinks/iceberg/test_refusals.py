"""Refusals that are not what they say, and sessions whose writes go elsewhere. Without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from eo_listener.model.errors import (
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg import connection
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.names import new_branch
from eo_listener.sinks.iceberg.publication import Publication
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.sinks.iceberg.test_ledger import Table

ENTRY = entry_of({}, {TopicPartition("flights", 0): OffsetRange(0, 1)})
REFUSED = ThrownError(("org.apache.iceberg.exceptions.CommitFailedException",), "no row updated")


class Catalog(Table):
    """A table whose catalog makes a commit, and then says that it was refused."""

    foreign = False
    away = False
    ends_with_it = False
    readable = True

    version = ""

    def refresh(self) -> None:
        """It has no copy; it may not be reached."""
        self.version = f"{self.main} {len(self.texts)} {sorted(self.branches)}"
        if self.away:
            raise ThrownError(("org.apache.iceberg.jdbc.UncheckedSQLException",), "gone")

    def uncache(self) -> None:
        """It has no cache."""

    def create_branch(
        self, name: str, *, at: int | None, summary: dict[str, str] | None = None
    ) -> int:
        """Where main is."""
        assert at == self.main
        self.branches[name] = self.add(at, None, **(summary or {}))
        return self.branches[name]

    def is_readable(self, snapshot_id: int) -> bool:
        """Whether it still has the manifest list."""
        return self.readable

    def added_since(self, snapshot_id: int) -> list[int]:
        """Ids are in the order in which snapshots were added."""
        return [at for at in self.texts if at > snapshot_id]

    def drop_branch(self, name: str) -> None:
        """What a batch that failed does."""
        del self.branches[name]

    def publish(  # type: ignore[override]  # that of IcebergTable
        self, branch: str, *, summary: dict[str, str] | None, **_: Any
    ) -> None:
        """Move main; then say that nothing was done, as a commit does that is sent once more."""
        if self.foreign:
            other = LedgerText(QUERY, 1, heads_of(replace(ENTRY, run_id="other")))
            at = new_branch(QUERY, "other")
            self.write_ledger(at, other.encode())
            Table.publish(self, at)
        else:
            if summary is not None:
                self.write_ledger(branch, summary[PROPERTY])
            Table.publish(self, branch)
        self.away = self.ends_with_it
        raise REFUSED

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


def test_after_a_refusal_another_driver_is_still_found() -> None:
    """What it has published is not taken for ours."""
    table = Catalog()
    table.foreign = True
    with pytest.raises(RetriableSinkError, match="is not there"):
        write(table, appends=False)


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
        """Where main is, in the end."""
        self._refuse("create")
        return super().create_branch(name, at=at, summary=summary)

    def publish(  # type: ignore[override]  # that of IcebergTable
        self, branch: str, *, summary: dict[str, str] | None, **_: Any
    ) -> None:
        """Move main, in the end."""
        self._refuse("publish")
        if summary is not None:
            self.write_ledger(branch, summary[PROPERTY])
        Table.publish(self, branch)

    def publish_again(self, staged: str, branch: str, *, summary: dict[str, str], **_: Any) -> None:
        """The same, where main has moved."""
        self._refuse("publish")
        del self.branches[staged]
        self.write_ledger(branch, summary[PROPERTY])
        Table.publish(self, branch)


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


def check_wap(conf: dict[str, str], *, enabled: bool) -> None:
    spark: Any = SimpleNamespace(conf=conf)
    table: Any = SimpleNamespace(has_property=lambda name: enabled and name == "write.wap.enabled")
    connection.check_wap(spark, table, "the table")


@pytest.mark.parametrize("name", ["spark.wap.id", "spark.wap.branch"])
def test_writes_that_would_go_elsewhere_are_refused(name: str) -> None:
    """Before anything runs: what statements have written would be on no branch at all, and their
    ledger be published without it. Of a table that does not take part these settings mean nothing.
    """
    with pytest.raises(SettingsError, match=f"the table.*{name}") as refused:
        check_wap({name: "audit"}, enabled=True)
    assert name in str(refused.value.fix)
    check_wap({name: "audit"}, enabled=False)
    check_wap({}, enabled=True)


def test_a_batch_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """For statements and for rows alike."""
    from eo_listener import IcebergSink  # noqa: PLC0415
    from eo_listener.sinks.iceberg import sink  # noqa: PLC0415

    spark = SimpleNamespace(conf={"spark.wap.id": "audit"})
    table = SimpleNamespace(has_property=lambda _: True)
    monkeypatch.setattr(sink, "find", lambda *_: table)
    applies: Sequence[str | None] = (None, "DELETE FROM {table}")
    for apply in applies:
        with pytest.raises(SettingsError, match=r"spark\.wap\.id"):
            IcebergSink("lake.db.t", apply=apply).apply(
                SimpleNamespace(sparkSession=spark),
                ENTRY,
                SimpleNamespace(),  # type: ignore[arg-type]
            )


def test_files_are_not_looked_for_in_a_cached_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's cache can have main as it was before a rollback."""
    from eo_listener import IcebergSink  # noqa: PLC0415
    from eo_listener.sinks.iceberg import connection, sink  # noqa: PLC0415

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
