"""Each bug that is planted in how a batch is published is found by a test of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from eo_listener.errors import EoListenerError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Entry
from eo_listener.sinks.iceberg import publication
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.names import new_branch
from eo_listener.sinks.iceberg.snapshots import Snapshot
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_table import MAIN, IcebergTable
from eo_listener.testing.faults import Killed, broken_off
from tests.sinks.iceberg import test_publication as proofs
from tests.sinks.iceberg import test_wrong_places as wrong_places
from tests.sinks.iceberg.java_tables import Catalog
from tests.sinks.iceberg.test_publication import table
from tests.sinks.iceberg.test_wrong_places import database

__all__ = ["database", "table"]

pytestmark = pytest.mark.spark  # needs a JVM and its jars

Plant = Callable[[pytest.MonkeyPatch], None]


def instead(owner: object, name: str, act: Callable[..., Any]) -> Plant:
    return lambda patch: patch.setattr(owner, name, act)


def ledger_in_a_commit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    real = IcebergTable.publish

    def publish(self: Any, branch: str, *, summary: Any = None, **given: Any) -> None:
        real(self, branch, **given)
        fault_point("planted.between")
        append = self._table.newFastAppend()
        for key, value in (summary or {}).items():
            append.set(key, value)
        append.commit()

    monkeypatch.setattr(IcebergTable, "publish", publish)


def shared_branch(query: str, run_id: str) -> str:
    return new_branch(query, run_id)[: -len("00000000_000000000000")] + "0" * 8 + "_" + "0" * 12


def forward_on_any_metadata(self: Any, transaction: Any, branch: str, *_: Any, **__: Any) -> None:
    self._table.manageSnapshots().fastForwardBranch(MAIN, branch).commit()


def moved_heads_only(self: LedgerText, entry: Entry) -> LedgerText:
    moved = {tp: entry.head(tp) for tp in entry.moves}
    return LedgerText(self.query, self.number + 1, moved)


def staged_batch_taken_for_published(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PublishedLedgers._chain

    def chain(self: PublishedLedgers, table: Any, known: Any) -> Iterator[Snapshot]:
        heads = [self.read(table, at) for at in table.branches.values()]
        found = [head for head in heads if head is not None]
        yield from sorted(found, key=lambda head: -head.sequence)
        yield from real(self, table, known)

    monkeypatch.setattr(PublishedLedgers, "_chain", chain)


def ledger_of_the_last_snapshot_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PublishedLedgers._chain

    def chain(self: PublishedLedgers, table: Any, known: Any) -> Iterator[Snapshot]:
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

    def forward(self: Any, transaction: Any, branch: str, drop: Any, **given: Any) -> None:
        real(self, transaction, branch, drop, **given)
        self.drop_branch(branch)

    monkeypatch.setattr(IcebergTable, "_forward", forward)


def killed_between(java: Catalog, table: str) -> None:
    """A driver that dies between two commits, if there are two."""
    try:
        with broken_off("planted.between", Killed()):
            proofs.write(java, table, 1, appends=False)
    except Killed:
        proofs.write(java, table, 1, appends=False)
    proofs.check(java, table, 0, 1)


def own_heads(java: Catalog) -> None:
    suite = proofs.TestAppends()
    suite.java, suite.tables = java, {}
    suite.test_a_batch_moves_its_own_heads_only()


refused_and_made = partial(
    wrong_places.test_a_commit_that_was_made_is_refused,
    point="sink.commit-sent",
    times=1,
    appends=False,
)
PLANTED: dict[str, tuple[Plant, Callable[..., None]]] = {
    "ledger_in_a_commit_of_its_own": (ledger_in_a_commit_of_its_own, killed_between),
    "branch_shared_by_runs": (
        instead(publication, "new_branch", shared_branch),
        partial(proofs.test_what_a_dead_driver_left_is_dropped, point="sink.begun", appends=True),
    ),
    "published_by_name_after_a_reset": (
        instead(IcebergTable, "_begin", lambda self, at: self._table.newTransaction()),
        partial(proofs.test_a_rollback_right_before_stays, appends=True),
    ),
    "published_on_any_metadata": (
        instead(IcebergTable, "_forward", forward_on_any_metadata),
        proofs.test_a_rollback_while_it_is_committed_stays,
    ),
    "heads_of_moved_partitions_only": (instead(LedgerText, "after", moved_heads_only), own_heads),
    "staged_batch_taken_for_published": (
        staged_batch_taken_for_published,
        partial(
            proofs.test_what_a_dead_driver_left_is_dropped, point="sink.commit-sent", appends=True
        ),
    ),
    "ledger_of_the_last_snapshot_only": (
        ledger_of_the_last_snapshot_only,
        proofs.test_branches_of_others_stay,
    ),
    "cached_table": (cached_table, partial(proofs.test_another_commit_right_before, appends=True)),
    "anchor_dropped": (
        anchor_dropped,
        partial(proofs.test_the_ledger_outlives_expired_snapshots, appends=True),
    ),
    "committed_by_the_transaction": (
        instead(IcebergTable, "_commit", lambda _, begun: begun.commitTransaction()),
        refused_and_made,
    ),
    "branch_made_anew_taken_for_the_batch": (
        instead(publication.Publication, "_check_statements", lambda *_: None),
        wrong_places.test_a_branch_dropped_between_statements,
    ),
    "cherry_picked_rows_without_a_ledger": (
        instead(PublishedLedgers, "_check_picked", lambda *_, **__: None),
        partial(wrong_places.test_a_batch_that_is_cherry_picked, appends=True),
    ),
    "never_looked_after_a_refusal": (
        instead(publication.Publication, "_is_committed", lambda _: False),
        refused_and_made,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_bug_is_found(
    name: str,
    java: Catalog,
    database: wrong_places.Database,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proof fails with it, and passes without it."""
    plant, proof = PLANTED[name]
    wanted = inspect.signature(proof).parameters

    def prove(**given: Any) -> None:
        proof(**{key: value for key, value in given.items() if key in wanted})

    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, EoListenerError, Py4JJavaError, pytest.fail.Exception)):
            prove(java=java, database=database, table=table, monkeypatch=patch)
    database.reset()
    again = java.create()
    proofs.write(java, again, 0)
    with monkeypatch.context() as patch:
        prove(java=java, database=database, table=again, monkeypatch=patch)
