"""Repairs of the ledger in a Delta table: the chapter, and what Delta's log makes of them."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import InUseError, SinkError
from eo_listener.offsets import OffsetRange
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import FRAME, QUERY
from tests.sinks.chapters.ledger_repair import (
    BOTH,
    GAP,
    NEW,
    InterruptedRepairs,
    LedgerRepairs,
    RepairsOfTable,
    planned,
)
from tests.sinks.chapters.store import OTHER, TP, once
from tests.sinks.delta.store import DeltaStore

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestLedgerRepairs(LedgerRepairs):
    """In one commit without rows."""

    @BOTH
    def test_killed_after_the_commit(self, written: DeltaStore, is_rename: bool) -> None:
        """It is there, and a second one is refused."""
        done, version = planned(written, written.repair(), is_rename=is_rename), written.version()
        before = written.heads()
        with broken_off("sink.committed"), pytest.raises(Killed):
            done()
        assert written.heads(NEW if is_rename else QUERY)[OTHER] == before[OTHER]
        with pytest.raises(InUseError):
            done()
        assert written.version() == version + 1

    def test_a_batch_under_the_new_name_in_the_middle(self, written: DeltaStore) -> None:
        """Delta compares numbers of one name alone: then the ledger is refused, and says why."""
        done = planned(written, written.repair(), is_rename=True)
        with (
            once("sink.commit-sent", lambda: written.write({TP: OffsetRange(0, 3)}, query=NEW)),
            pytest.raises(SinkError, match="ledger renamed"),
        ):
            done()
        for query in (NEW, QUERY):
            with pytest.raises(SinkError, match="ledger renamed"):
                written.heads(query)
        written.take_back(written.version() - 1)
        assert written.heads()[OTHER].range == OffsetRange(0, 4)
        assert written.heads(NEW)[TP].range == OffsetRange(0, 3)

    def test_a_table_that_is_restored_to_before_a_rename(self, written: DeltaStore) -> None:
        """The old name has its heads again, the new one none; what undoes it is named."""
        before, version, repair = written.heads(), written.version(), written.repair()
        planned(written, repair, is_rename=True)()
        written.take_back(version)
        assert (written.heads(), written.heads(NEW)) == (before, {})
        back = repair.reader.ledgers()[written.key(NEW)].rollback
        assert back is not None
        written.run(back.fix)
        assert (written.heads(), written.heads(NEW)) == ({}, before)

    def test_the_commit_has_no_rows(self, written: DeltaStore) -> None:
        """And says in the table's own history what it is."""
        planned(written, written.repair(), is_rename=True)()
        log = written.metadata() / f"{written.version():020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        assert not [one for one in actions if "add" in one or "remove" in one]
        said = next(one["commitInfo"]["userMetadata"] for one in actions if "commitInfo" in one)
        assert {"renamed", "ledger"} <= json.loads(said).keys()


class TestInterruptedRepairs(InterruptedRepairs):
    """A batch takes the number that the repair was to have, which Delta then skips."""

    points = ("sink.commit-sent",)
    batch_wins = points
    sleep = "sink.commit-sent"


class TestRepairsOfTable(RepairsOfTable):
    """By its path."""


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        (FRAME.replace("offset bigint", "offset bigint NOT NULL"), ""),
        (FRAME, "PARTITIONED BY (topic)"),
    ],
)
def test_a_table_with_columns_of_a_kind(
    delta: SparkSession, store: DeltaStore, columns: str, more: str
) -> None:
    """Also where columns must not be null, or the table has partitions."""
    delta.sql(f"CREATE TABLE {store.table} ({columns}) USING delta {more}")
    store.write({TP: OffsetRange(0, 3)})
    for is_rename in (False, True):
        planned(store, store.repair(), is_rename=is_rename)()
    assert store.heads(NEW)[TP].range == OffsetRange(GAP.until, GAP.until)
    assert len(store.rows()) == 3
