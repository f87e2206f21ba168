"""Repairs of the ledger in an Iceberg table: the chapter, and what becomes of branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from eo_listener.errors import InUseError, OutcomeUnknownError
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.iceberg.names import is_branch_of
from eo_listener.sinks.ledger_repair import refuse_unsettled
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.sinks.chapters.ledger_repair import (
    BOTH,
    NEW,
    InterruptedRepairs,
    LedgerRepairs,
    RepairsOfTable,
    planned,
)
from tests.sinks.chapters.store import TP, Store, once
from tests.sinks.iceberg import test_dead_letters as dead_letters
from tests.sinks.iceberg.store import IcebergStore

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestLedgerRepairs(LedgerRepairs):
    """In a snapshot without rows."""

    def test_snapshots_that_expire(self, written: IcebergStore) -> None:
        """The ledger under its new name is kept by its branch; the old one does not come back."""
        before, lake = written.heads(), written.lake
        planned(written, written.repair(), is_rename=True)()
        (branch,) = written.branches()
        assert is_branch_of(NEW, branch)
        for number in range(3):
            lake.append("t", [("x", 0, number, "other")])
        lake.expire("t")
        assert (written.heads(), written.heads(NEW)) == ({}, before)

    def test_other_programs_write(self, written: IcebergStore) -> None:
        """A commit that is no batch moves main: the repair is made once more, on what is there."""
        done, before = planned(written, written.repair(), is_rename=True), written.heads()
        other = [("x", 0, 0, "other")]
        with once("sink.rows-written", lambda: written.lake.append("t", other)):
            done()
        assert (written.heads(), written.heads(NEW)) == ({}, before)
        assert len(written.rows()) == 8

    def test_an_answer_that_is_lost(
        self, written: IcebergStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither success nor failure is said, and where to look is."""
        done, publish = planned(written, written.repair()), IcebergTable.publish

        def lost(table: IcebergTable, branch: str, **given: Any) -> None:
            publish(table, branch, **given)
            raise ThrownError(("java.net.SocketTimeoutException",), "no answer")

        monkeypatch.setattr(IcebergTable, "publish", lost)
        with pytest.raises(OutcomeUnknownError, match="ledger show"):
            done()
        assert written.heads()[TP].range == OffsetRange(8, 8)

    def test_a_query_that_runs_shows_by_its_branches(self, written: IcebergStore) -> None:
        """One that is made or dropped between two looks."""
        repair, key = written.repair(), written.key()
        assert repair.users(key) == ()
        assert repair.users(key) == ()
        java = written.lake.java("t")
        java.create_branch("eo_0", at=java.main)
        assert repair.users(key) == ()
        written.write({TP: OffsetRange(3, 5)}, 1)
        assert len(repair.users(key)) == 2

    def test_a_table_that_was_rolled_back(self, written: IcebergStore) -> None:
        """Is not repaired: the branch would go that has its later rows."""
        before, repair = written.version(), written.repair()
        written.write({TP: OffsetRange(3, 5)}, 1)
        written.take_back(before)
        stored = repair.reader.ledgers()[written.key()]
        with pytest.raises(InUseError, match="rolled back"):
            refuse_unsettled(repair.reader.label, stored)

    @BOTH
    def test_dead_letters_that_are_not_published_yet(
        self, written: IcebergStore, is_rename: bool
    ) -> None:
        """A driver died before it published them: who reads the repaired ledger does."""
        lake, entry = written.lake, entry_of(written.heads(), {TP: OffsetRange(3, 7)}, batch_id=1)
        with broken_off("sink.committed"), pytest.raises(Killed):
            dead_letters.sink_of(lake).apply(dead_letters.batch(lake, 1), entry, plan_of(entry))
        assert dead_letters.dead(lake) == []
        planned(written, written.repair(), is_rename=is_rename, gap=OffsetRange(7, 8))()
        dead_letters.sink_of(lake).applied(NEW if is_rename else QUERY)
        assert dead_letters.dead(lake) == [(5, "odd")]


class TestInterruptedRepairs(InterruptedRepairs):
    """A repair is a branch until it is published; the next one drops what a killed one has left."""

    points = ("sink.begun", "sink.commit-sent")
    batch_wins = points
    sleep = "sink.rows-written"

    @contextmanager
    def crash(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IcebergTable, "drop_branch", lambda self, name: None)
            yield

    def check_left(self, store: Store) -> None:
        assert isinstance(store, IcebergStore)
        assert len(store.branches()) == 1


class TestRepairsOfTable(RepairsOfTable):
    """In a catalog."""
