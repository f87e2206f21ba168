"""Each bug that is planted in how a batch is published is found by a test of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from eo_listener.model.errors import EoListenerError
from eo_listener.model.fault_points import reached
from eo_listener.model.ledger import Entry
from eo_listener.sinks.iceberg import publication
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.names import new_branch
from eo_listener.sinks.iceberg.snapshots import Snapshot, Snapshots
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_table import MAIN, IcebergTable
from eo_listener.testing.faults import Killed, broken_off
from tests.sinks.iceberg import test_lost_answers as lost_answers
from tests.sinks.iceberg import test_publication as proofs
from tests.sinks.iceberg import test_wrong_places as wrong_places
from tests.sinks.iceberg.java_tables import Catalog

pytestmark = pytest.mark.spark  # needs a JVM and its jars

Plant = Callable[[pytest.MonkeyPatch], None]
Proof = Callable[[Catalog, str, pytest.MonkeyPatch], object]


def ledger_in_a_commit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    real = IcebergTable.publish

    def publish(
        self: IcebergTable,
        branch: str,
        *,
        at: int | None,
        drop: Iterable[str] = (),
        summary: dict[str, str] | None = None,
    ) -> None:
        real(self, branch, at=at, drop=drop)
        reached("planted.between")
        append = self._table.newFastAppend()
        for key, value in (summary or {}).items():
            append.set(key, value)
        append.commit()

    monkeypatch.setattr(IcebergTable, "publish", publish)


def branch_shared_by_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(query: str, run_id: str) -> str:
        return new_branch(query, run_id)[: -len("00000000_000000000000")] + "0" * 8 + "_" + "0" * 12

    monkeypatch.setattr(publication, "new_branch", shared)


def published_by_name_after_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IcebergTable, "_begun", lambda self, at: self._table.newTransaction())


def published_on_any_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: IcebergTable, transaction: Any, branch: str, *_: Any, **__: Any) -> None:
        self._table.manageSnapshots().fastForwardBranch(MAIN, branch).commit()

    monkeypatch.setattr(IcebergTable, "_forward", forward)


def heads_of_moved_partitions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def after(self: LedgerText, entry: Entry) -> LedgerText:
        moved = {tp: entry.head(tp) for tp in entry.moves}
        return LedgerText(self.query, self.number + 1, moved)

    monkeypatch.setattr(LedgerText, "after", after)


def staged_batch_taken_for_published(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PublishedLedgers._chain

    def chain(
        self: PublishedLedgers, table: Snapshots, known: Mapping[str, Snapshot]
    ) -> Iterator[Snapshot]:
        heads = [self.read(table, at) for at in table.branches.values()]
        found = [head for head in heads if head is not None]
        yield from sorted(found, key=lambda head: -head.sequence)
        yield from real(self, table, known)

    monkeypatch.setattr(PublishedLedgers, "_chain", chain)


def ledger_of_the_last_snapshot_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PublishedLedgers._chain

    def chain(
        self: PublishedLedgers, table: Snapshots, known: Mapping[str, Snapshot]
    ) -> Iterator[Snapshot]:
        return iter(list(real(self, table, known))[:1])

    monkeypatch.setattr(PublishedLedgers, "_chain", chain)


def cached_table(monkeypatch: pytest.MonkeyPatch) -> None:
    real = IcebergTable.refresh

    def once(self: IcebergTable) -> None:
        if not hasattr(self, "main"):
            real(self)

    monkeypatch.setattr(IcebergTable, "refresh", once)


def anchor_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    real = IcebergTable._forward

    def forward(
        self: IcebergTable, transaction: Any, branch: str, drop: Iterable[str], **given: Any
    ) -> None:
        real(self, transaction, branch, drop, **given)
        self.drop_branch(branch)

    monkeypatch.setattr(IcebergTable, "_forward", forward)


def committed_by_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IcebergTable, "_commit", lambda _, begun: begun.commitTransaction())


def never_looked_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication.Publication, "_is_made", lambda _: False)


def branch_made_anew_taken_for_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication.Publication, "_check_statements", lambda *_: None)


def cherry_picked_rows_without_a_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublishedLedgers, "_check_picked", lambda *_, **__: None)


def refused_and_made(java: Catalog, table: str) -> None:
    """A catalog that has made the commit, and says that it has not."""
    database = lost_answers.Database(java.folder)
    try:
        lost_answers.test_a_commit_that_was_made_is_refused(
            java, database, table, "sink.commit-sent", 1, appends=False
        )
    finally:
        database.reset()


def killed_between(java: Catalog, table: str, _: pytest.MonkeyPatch) -> None:
    """A driver that dies between two commits, if there are two."""
    try:
        with broken_off("planted.between", Killed()):
            proofs.write(java, table, 1, appends=False)
    except Killed:
        proofs.write(java, table, 1, appends=False)
    proofs.check(java, table, 0, 1)


def own_heads(java: Catalog, _: str, __: pytest.MonkeyPatch) -> None:
    suite = proofs.TestAppends()
    suite.java, suite.tables = java, {}
    suite.test_a_batch_moves_its_own_heads_only()


PLANTED: dict[Plant, Proof] = {
    ledger_in_a_commit_of_its_own: killed_between,
    branch_shared_by_runs: lambda java, table, _: proofs.test_what_a_dead_driver_left_is_dropped(
        java, table, "sink.begun", appends=True
    ),
    published_by_name_after_a_reset: lambda java, table, patch: (
        proofs.test_a_rollback_right_before_stays(java, table, patch, appends=True)
    ),
    published_on_any_metadata: proofs.test_a_rollback_while_it_is_committed_stays,
    heads_of_moved_partitions_only: own_heads,
    staged_batch_taken_for_published: lambda java, table, _: (
        proofs.test_what_a_dead_driver_left_is_dropped(
            java, table, "sink.commit-sent", appends=True
        )
    ),
    ledger_of_the_last_snapshot_only: lambda java, table, _: proofs.test_branches_of_others_stay(
        java, table
    ),
    cached_table: lambda java, table, patch: proofs.test_another_commit_right_before(
        java, table, patch, appends=True
    ),
    anchor_dropped: lambda java, table, _: proofs.test_the_ledger_outlives_expired_snapshots(
        java, table, appends=True
    ),
    committed_by_the_transaction: lambda java, table, _: refused_and_made(java, table),
    branch_made_anew_taken_for_the_batch: wrong_places.test_a_branch_dropped_between_statements,
    cherry_picked_rows_without_a_ledger: lambda java, table, _: (
        wrong_places.test_a_batch_that_is_cherry_picked(java, table, appends=True)
    ),
    never_looked_after_a_refusal: lambda java, table, _: refused_and_made(java, table),
}


@pytest.fixture
def table(java: Catalog) -> str:
    """A table with one batch, before anything is planted."""
    name = java.create()
    proofs.write(java, name, 0)
    return name


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_each_planted_bug_is_found(
    plant: Plant, java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof fails with it, and passes without it."""
    with monkeypatch.context() as planted:
        plant(planted)
        with pytest.raises((AssertionError, EoListenerError, Py4JJavaError, pytest.fail.Exception)):
            PLANTED[plant](java, table, planted)
    again = java.create()
    proofs.write(java, again, 0)
    with monkeypatch.context() as none:
        PLANTED[plant](java, again, none)
