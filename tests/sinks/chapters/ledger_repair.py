"""Repairs of a ledger: what they carry over, and who cannot come between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from eo_listener.errors import ForeignWriterError, InUseError, SettingsError, SinkError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_repair import LedgerRepair, Rename, plan_acceptance, plan_rename
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.commands import run_here
from tests.sinks.chapters.lake import LakeStore
from tests.sinks.chapters.store import OTHER, TP, Store, once

NEW = "renamed"
GAP = OffsetRange(3, 8)
BOTH = pytest.mark.parametrize("is_rename", [True, False], ids=["rename", "gap"])
Step: TypeAlias = "tuple[str, OffsetRange, OffsetRange | None]"


def rename(
    store: Store, repair: LedgerRepair, old: str = QUERY, new: str = NEW, sink: str | None = None
) -> Rename:
    """Plan to rename a query by what the ledger has now."""
    ledgers = {key: one.heads for key, one in repair.reader.ledgers().items()}
    return plan_rename(ledgers, store.key(old), sink=sink, query=new)


def planned(
    store: Store, repair: LedgerRepair, *, is_rename: bool = False, gap: OffsetRange = GAP
) -> Callable[[], None]:
    """Plan a repair by what the ledger has now; return what does it."""
    if is_rename:
        return partial(repair.rename, rename(store, repair))
    key = store.key()
    heads = repair.reader.ledgers()[key].heads
    return partial(repair.accept, key.sink, plan_acceptance(heads, key, TP, gap, run_id="repair"))


def history(
    store: Store, repair: LedgerRepair, query: str = QUERY, tp: TopicPartition = TP
) -> list[Step]:
    """The first words of the verdicts, the ranges and the gaps of a partition."""
    repair.reader.ledgers()
    return [
        (one.verdict.split()[0], one.head.range, one.gap)
        for one in repair.reader.history(store.key(query))
        if one.partition == tp
    ]


class LedgerRepairs:
    """The chapter of every store."""

    @pytest.fixture
    def written(self, store: Store) -> Store:
        """The store after a batch of two partitions."""
        store.write({TP: OffsetRange(0, 3), OTHER: OffsetRange(0, 4)})
        return store

    @pytest.fixture
    def repair(self, written: Store) -> LedgerRepair:
        return written.repair()

    def test_a_gap_is_accepted(self, written: Store, repair: LedgerRepair) -> None:
        """One head moves, of the same batch and query; a driver goes on behind it."""
        before, driver = written.heads(), written.sink()
        driver.applied(QUERY)
        planned(written, repair)()
        heads = dict(driver.applied(QUERY))
        assert heads == written.heads()
        assert heads[OTHER] == before[OTHER]
        assert heads[TP].range == OffsetRange(8, 8)
        assert heads[TP].batch_id == before[TP].batch_id
        assert heads[TP].query_id == before[TP].query_id
        assert written.offsets() == [0, 0, 1, 1, 2, 2, 3]
        entry = entry_of(heads, {TP: OffsetRange(8, 10)}, batch_id=1)
        written.put(driver, entry)
        assert written.heads()[TP] == entry.head(TP)
        planned(written, repair, gap=OffsetRange(10, 20))()
        assert history(written, repair) == [
            (written.first, OffsetRange(0, 3), None),
            ("gap", OffsetRange(8, 8), GAP),
            ("next", OffsetRange(8, 10), None),
            ("gap", OffsetRange(20, 20), OffsetRange(10, 20)),
        ]
        assert written.offsets()[-2:] == [8, 9]

    def test_a_query_is_renamed(self, written: Store, repair: LedgerRepair) -> None:
        """Heads and history go by the new name, and nothing by the old one; names are data."""
        planned(written, repair)()
        before, new, rows = written.heads(), HOSTILE[0], written.offsets()
        repair.rename(rename(written, repair, new=new))
        assert (written.heads(), written.heads(new)) == ({}, before)
        assert set(repair.reader.ledgers()) == {written.key(new)}
        assert history(written, repair, new) == [
            (written.first, OffsetRange(0, 3), None),
            ("gap", OffsetRange(8, 8), GAP),
            ("renamed", OffsetRange(8, 8), None),
        ]
        assert history(written, repair, new, OTHER) == [
            (written.first, OffsetRange(0, 4), None),
            ("renamed", OffsetRange(4, 4), None),
        ]
        verdicts = [one.verdict for one in repair.reader.history(written.key(new))]
        assert sum(one.endswith(f"query {QUERY}") for one in verdicts) == 2
        assert written.offsets() == rows
        entry = written.write({TP: OffsetRange(8, 10)}, 1, query=new)
        assert written.heads(new) == {**before, TP: entry.head(TP)}
        assert written.offsets() == sorted([*rows, 8, 9])
        moved = written.sink().moved_by("query-1")
        assert moved is not None
        assert set(moved) == {written.key(new)}

    def test_there_and_back(self, written: Store, repair: LedgerRepair) -> None:
        """A query that gets its old name back has its ledger as it was, and goes on."""
        before = written.heads()
        repair.rename(rename(written, repair))
        repair.rename(rename(written, repair, NEW, QUERY))
        assert (written.heads(), written.heads(NEW)) == (before, {})
        assert [verdict for verdict, *_ in history(written, repair)] == [
            *(written.first, "renamed", "renamed")
        ]
        written.write({TP: OffsetRange(3, 5)}, 1)
        assert written.heads()[TP].range == OffsetRange(3, 5)

    @BOTH
    def test_a_ledger_that_has_moved(
        self, written: Store, repair: LedgerRepair, is_rename: bool
    ) -> None:
        """What was planned on older heads is refused, and changes nothing."""
        done = planned(written, repair, is_rename=is_rename)
        written.write({TP: OffsetRange(3, 5)}, 1)
        before, state = written.heads(), written.state()
        with pytest.raises(InUseError, match="flights-0"):
            done()
        assert (written.heads(), written.heads(NEW), written.state()) == (before, {}, state)

    def test_a_name_that_is_taken_meanwhile(self, written: Store, repair: LedgerRepair) -> None:
        """Two ledgers never become one."""
        before, plan = written.heads(), rename(written, repair)
        entry = written.write({TP: OffsetRange(0, 2)}, query=NEW)
        with pytest.raises(InUseError, match="with the new name"):
            repair.rename(plan)
        assert (written.heads(), written.heads(NEW)) == (before, {TP: entry.head(TP)})

    @BOTH
    def test_a_driver_that_has_read_before(
        self, written: Store, repair: LedgerRepair, is_rename: bool
    ) -> None:
        """Its batch is refused: its head is another one, or has another name."""
        driver = written.sink()
        late = entry_of(driver.applied(QUERY), {TP: OffsetRange(3, 5)}, batch_id=1)
        planned(written, repair, is_rename=is_rename)()
        with pytest.raises(ForeignWriterError):
            written.put(driver, late)
        assert written.heads(NEW if is_rename else QUERY)[TP].range.until == (3 if is_rename else 8)
        assert len(written.rows()) == 7


class InterruptedRepairs:
    """The chapter of the stores whose repairs have steps.

    `points` come before the commit of a repair, of which those in `batch_wins` let a batch through.
    `late` is on the way to it, where either may win. A batch may be asleep at `sleep`.
    """

    points: tuple[str, ...]
    late: tuple[str, ...] = ()
    batch_wins: tuple[str, ...]
    sleep: str

    written = LedgerRepairs.written
    repair = LedgerRepairs.repair

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Take `point` out of `points`, and `any_point` out of those and the late ones."""
        for name, points in (("point", self.points), ("any_point", (*self.points, *self.late))):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, points)

    def crash(self) -> AbstractContextManager[object]:
        return nullcontext()

    @BOTH
    def test_a_batch_in_the_middle(
        self, written: Store, repair: LedgerRepair, any_point: str, is_rename: bool
    ) -> None:
        """It is refused or the repair is: never are both there, nor a part of either."""
        done, found = planned(written, repair, is_rename=is_rename), written.heads()
        refused: list[Exception] = []

        def write() -> None:
            try:
                written.write({TP: OffsetRange(3, 5)}, 1, found=found)
            except (ForeignWriterError, SinkError) as error:
                refused.append(error)

        with once(any_point, write):
            try:
                done()
                wins = False
            except InUseError:
                wins = True
        assert wins is not bool(refused)
        assert any_point in self.late or wins is (any_point in self.batch_wins)
        assert len(written.rows()) == (9 if wins else 7)
        heads = {QUERY: written.heads(), NEW: written.heads(NEW)}
        (name,) = (query for query in heads if heads[query])
        assert name == (NEW if is_rename and not wins else QUERY)
        assert heads[name][TP].range.until == (5 if wins else 3 if is_rename else 8)
        self.check_left(written)

    @BOTH
    def test_a_driver_that_is_asleep_in_its_batch(
        self, written: Store, repair: LedgerRepair, is_rename: bool
    ) -> None:
        """It comes back after the repair: nothing of its batch is written, then or later."""
        done, found = planned(written, repair, is_rename=is_rename), written.heads()
        with once(self.sleep, done), pytest.raises((ForeignWriterError, SinkError)):
            written.write({TP: OffsetRange(3, 5)}, 1, found=found)
        with pytest.raises(ForeignWriterError):
            written.write({TP: OffsetRange(3, 5)}, 1, found=found)
        assert written.heads(NEW if is_rename else QUERY)[TP].range.until == (3 if is_rename else 8)
        assert len(written.rows()) == 7

    @BOTH
    def test_killed_in_the_middle(
        self, written: Store, repair: LedgerRepair, point: str, is_rename: bool
    ) -> None:
        """Nothing of it is there, and the next one is made at once."""
        done, before = planned(written, repair, is_rename=is_rename), written.heads()
        with self.crash(), broken_off(point), pytest.raises(Killed):
            done()
        assert (written.heads(), written.heads(NEW)) == (before, {})
        again = written.repair()
        assert set(again.reader.ledgers()) == {written.key()}
        planned(written, again, is_rename=is_rename)()
        assert written.heads(NEW if is_rename else QUERY)[OTHER] == before[OTHER]
        self.check_left(written)

    def check_left(self, store: Store) -> None:
        """See that nothing of a repair is left beside the ledger."""


class RepairsOfTable:
    """The chapter of the stores whose tables each have their own ledger."""

    def test_the_ledger_of_another_table(self, store: Store) -> None:
        """It is in its table, which takes it along."""
        repair = store.repair()
        assert repair.key_of(store.name) == store.name
        with pytest.raises(SettingsError, match="--to-query"):
            repair.key_of(f"{store.name}_2")

    def test_by_the_command_and_what_an_audit_says_then(
        self, store: LakeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A dry run changes nothing; afterwards the query is audited under its new name: fine."""
        checkpoint = CheckpointFiles(tmp_path / "c", {TP: 0})
        for number in range(2):
            store.write_with(checkpoint, number)
        audit = ("audit", "-c", checkpoint.folder, "--ledger", store.address)
        command = ("ledger", "rename", store.address, "--to-query", NEW, "--watch", 0)
        state = store.state()
        code, document = run_here(capsys, *command)
        assert (code, document["executed"], document["heads"]) == (0, False, 1)
        assert store.state() == state
        code, document = run_here(capsys, *command, "--execute")
        assert (code, document["executed"]) == (0, True)
        assert run_here(capsys, *audit)[0] == 0
        code, document = run_here(capsys, *audit, "--query", QUERY)
        (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
        assert (code, NEW in finding["what"]) == (1, True)
        with pytest.raises(SettingsError, match=f"--query {NEW}"):
            run_here(capsys, *command[:3], "--query", QUERY, *command[3:], "--execute")
        gap = ("--partition", "flights-0", "--gap", "6..9", "--watch", 0, "--execute")
        code, document = run_here(capsys, "ledger", "accept", store.address, *gap)
        assert (code, document["gap"], document["query"]) == (0, [6, 9], NEW)
        code, shown = run_here(capsys, "ledger", "show", store.address, "--history", 9)
        (ledger,) = shown["ledgers"]
        assert [one["gap"] for one in ledger["history"]] == [None, None, None, [6, 9]]
