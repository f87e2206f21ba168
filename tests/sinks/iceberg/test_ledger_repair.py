"""Repairs of the ledger in an Iceberg table: what they publish, and who cannot come between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from eo_listener.model.errors import (
    ForeignWriterError,
    InUseError,
    OutcomeUnknownError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg.ledger_repair import IcebergLedgerRepair
from eo_listener.sinks.iceberg.names import is_branch_of, is_branch_of_any
from eo_listener.sinks.ledger_repair import plan_acceptance, plan_rename, refuse_unsettled
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.faults import Killed, broken_off, hooked
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, plan_of, rows_of
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.commands import run_here
from tests.sinks.iceberg import test_dead_letters as dead_letters
from tests.sinks.iceberg.lake import Lake
from tests.sinks.iceberg.test_ledger_reader import write as batch_of_a_query

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
NEW = "renamed"


@pytest.fixture
def repair(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[IcebergLedgerRepair]:
    """Of a table with a batch of both partitions.

    Spark looks for a catalog in the settings of the active session: in a command that is its only
    one, here what another test of the process has left.
    """
    monkeypatch.setattr(LocalSpark, "session", lambda _: lake.spark)
    sessions = cast(Any, lake.spark._jvm).org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(lake.spark._jsparkSession)
    write(lake, {TP: OffsetRange(0, 3), OTHER: OffsetRange(0, 4)})
    yield IcebergLedgerRepair(lake.table("t"), LocalSpark({}))
    if before.isDefined():
        sessions.setActiveSession(before.get())
    else:
        sessions.clearActiveSession()


def write(
    lake: Lake,
    ranges: Mapping[TopicPartition, OffsetRange],
    number: int = 0,
    *,
    query: str = QUERY,
    found: Mapping[TopicPartition, Head] | None = None,
) -> None:
    heads = lake.sink("t").applied(query) if found is None else found
    entry = entry_of(heads, ranges, batch_id=number, query=query)
    lake.sink("t").apply(lake.frame(rows_of(entry)), entry, plan_of(entry))


def heads(lake: Lake, query: str = QUERY) -> Mapping[TopicPartition, Head]:
    return lake.sink("t").applied(query)


def key(lake: Lake, query: str = QUERY) -> LedgerKey:
    return LedgerKey(lake.sink("t").key, query)


def planned(
    lake: Lake, repair: IcebergLedgerRepair, *, is_rename: bool, new: str = NEW, start: int = 3
) -> Callable[[], None]:
    """What does it, by what the ledger has now."""
    ledgers = {one: ledger.heads for one, ledger in repair.reader.ledgers().items()}
    own = key(lake)
    if is_rename:
        return partial(repair.rename, plan_rename(ledgers, own, sink=None, query=new))
    entry = plan_acceptance(ledgers[own], own, TP, OffsetRange(start, 8), run_id="repair")
    return partial(repair.accept, own.sink, entry)


def history(repair: IcebergLedgerRepair, lake: Lake, query: str = QUERY) -> list[Any]:
    repair.reader.ledgers()
    return [
        (one.partition, one.verdict, one.head.range, one.gap)
        for one in repair.reader.history(key(lake, query))
    ]


def branches(lake: Lake) -> list[str]:
    return [name for name in lake.java("t").branches if is_branch_of_any(name)]


def test_a_gap_and_a_rename(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """Heads and history go along; no row is touched; the query goes on under its new name."""
    before = heads(lake)
    planned(lake, repair, is_rename=False)()
    assert heads(lake)[TP].range == OffsetRange(8, 8)
    assert (heads(lake)[TP].batch_id, heads(lake)[OTHER]) == (0, before[OTHER])
    with pytest.raises(SettingsError, match="its next offset is 8"):
        planned(lake, repair, is_rename=False)()
    before, new = heads(lake), HOSTILE[0]
    planned(lake, repair, is_rename=True, new=new)()
    assert (heads(lake), heads(lake, new)) == ({}, before)
    assert set(repair.reader.ledgers()) == {key(lake, new)}
    kept = [
        (TP, "first", OffsetRange(0, 3), None),
        (TP, "gap accepted", OffsetRange(8, 8), OffsetRange(3, 8)),
        (TP, f"renamed from query {QUERY}", OffsetRange(8, 8), None),
        (OTHER, "first", OffsetRange(0, 4), None),
        (OTHER, f"renamed from query {QUERY}", OffsetRange(4, 4), None),
    ]
    assert history(repair, lake, new) == kept
    (branch,) = branches(lake)
    assert is_branch_of(new, branch)
    assert len(lake.rows("t")) == 7
    write(lake, {TP: OffsetRange(8, 10)}, 1, query=new)
    assert heads(lake, new)[TP].range == OffsetRange(8, 10)
    assert history(repair, lake, new)[3] == (TP, "next", OffsetRange(8, 10), None)
    assert len(lake.rows("t")) == 9
    moved = lake.sink("t").moved_by("query-1")
    assert moved is not None
    assert set(moved) == {key(lake, new)}


def test_there_and_back(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """A query that gets its old name back has its ledger as it was, and goes on."""
    before = heads(lake)
    planned(lake, repair, is_rename=True)()
    ledgers = {one: ledger.heads for one, ledger in repair.reader.ledgers().items()}
    repair.rename(plan_rename(ledgers, key(lake, NEW), sink=None, query=QUERY))
    assert (heads(lake), heads(lake, NEW)) == (before, {})
    assert [one[1] for one in history(repair, lake)] == 2 * [
        "first",
        f"renamed from query {QUERY}",
        f"renamed from query {NEW}",
    ]
    write(lake, {TP: OffsetRange(3, 5)}, 1)
    assert heads(lake)[TP].range == OffsetRange(3, 5)


def test_snapshots_that_expire(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """The ledger under its new name is kept by its branch; the old one does not come back."""
    before = heads(lake)
    planned(lake, repair, is_rename=True)()
    for number in range(3):
        lake.append("t", [("x", 0, number, "other")])
    table = lake.java("t")
    table._table.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()
    assert (heads(lake), heads(lake, NEW)) == ({}, before)


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_ledger_that_has_moved(lake: Lake, repair: IcebergLedgerRepair, is_rename: bool) -> None:
    """What was planned on older heads is refused, and publishes nothing."""
    done = planned(lake, repair, is_rename=is_rename)
    write(lake, {TP: OffsetRange(3, 5)}, 1)
    before, version, there = heads(lake), lake.java("t").version, branches(lake)
    with pytest.raises(InUseError, match="has moved meanwhile"):
        done()
    assert (heads(lake), heads(lake, NEW)) == (before, {})
    assert branches(lake) == there
    assert lake.java("t").version == version


@pytest.mark.parametrize("is_rename", [True, False])
@pytest.mark.parametrize("point", ["sink.begun", "sink.commit-sent"])
def test_a_batch_in_the_middle(
    lake: Lake, repair: IcebergLedgerRepair, is_rename: bool, point: str
) -> None:
    """It moves main and the ledger, so the repair is refused, and its branch is dropped."""
    done = planned(lake, repair, is_rename=is_rename)
    reached: list[str] = []

    def hook(name: str) -> None:
        if name == point and not reached:
            reached.append(name)
            write(lake, {TP: OffsetRange(3, 5)}, 1)

    with hooked(hook), pytest.raises(InUseError, match="has moved meanwhile"):
        done()
    assert reached
    assert heads(lake)[TP].range == OffsetRange(3, 5)
    assert heads(lake, NEW) == {}
    assert len(branches(lake)) == 1
    assert len(lake.rows("t")) == 9


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_batch_that_was_judged_before(
    lake: Lake, repair: IcebergLedgerRepair, is_rename: bool
) -> None:
    """A driver that was asleep in its batch comes back: nothing of that is published."""
    done = planned(lake, repair, is_rename=is_rename)
    reached: list[str] = []

    def hook(name: str) -> None:
        if name == "sink.rows-written" and not reached:
            reached.append(name)
            done()

    found = heads(lake)
    with hooked(hook), pytest.raises((ForeignWriterError, SinkError)):
        write(lake, {TP: OffsetRange(3, 5)}, 1, found=found)
    assert reached
    with pytest.raises(ForeignWriterError):
        write(lake, {TP: OffsetRange(3, 5)}, 1, found=found)
    after = heads(lake, NEW if is_rename else QUERY)
    assert after[TP].range == (OffsetRange(0, 3) if is_rename else OffsetRange(8, 8))
    assert len(lake.rows("t")) == 7


@pytest.mark.parametrize("is_rename", [True, False])
@pytest.mark.parametrize("point", ["sink.begun", "sink.commit-sent"])
def test_killed_in_the_middle(
    lake: Lake,
    repair: IcebergLedgerRepair,
    monkeypatch: pytest.MonkeyPatch,
    is_rename: bool,
    point: str,
) -> None:
    """Nothing of it is in main; the next one drops the branch that it has left."""
    done, before = planned(lake, repair, is_rename=is_rename), heads(lake)
    with monkeypatch.context() as patch, broken_off(point):
        patch.setattr(IcebergTable, "drop_branch", lambda self, name: None)
        with suppress(Killed):
            done()
    assert (heads(lake), heads(lake, NEW)) == (before, {})
    assert len(branches(lake)) == 2
    assert set(repair.reader.ledgers()) == {key(lake)}
    planned(lake, repair, is_rename=is_rename)()
    assert len(branches(lake)) == 1
    assert heads(lake, NEW if is_rename else QUERY)[OTHER] == before[OTHER]


def test_other_programs_write(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """A commit that is no batch moves main: the repair is made once more, on what is there then."""
    done = planned(lake, repair, is_rename=True)
    reached: list[str] = []

    def hook(name: str) -> None:
        if name == "sink.rows-written" and not reached:
            reached.append(name)
            lake.append("t", [("x", 0, 0, "other")])

    before = heads(lake)
    with hooked(hook):
        done()
    assert reached
    assert (heads(lake), heads(lake, NEW)) == ({}, before)
    assert len(lake.rows("t")) == 8


def test_an_answer_that_is_lost(
    lake: Lake, repair: IcebergLedgerRepair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither success nor failure is said, and where to look is."""
    done, publish = planned(lake, repair, is_rename=False), IcebergTable.publish

    def lost(table: IcebergTable, branch: str, **given: Any) -> None:
        publish(table, branch, **given)
        raise ThrownError(("java.net.SocketTimeoutException",), "no answer")

    monkeypatch.setattr(IcebergTable, "publish", lost)
    with pytest.raises(OutcomeUnknownError, match=r"may be changed or not.*ledger show"):
        done()
    assert heads(lake)[TP].range == OffsetRange(8, 8)


def test_a_query_that_runs_shows_by_its_branches(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """One that is made or dropped between two looks."""
    assert repair.users(key(lake)) == ()
    assert repair.users(key(lake)) == ()
    lake.java("t").create_branch("eo_0", at=lake.java("t").main)
    assert repair.users(key(lake)) == ()
    write(lake, {TP: OffsetRange(3, 5)}, 1)
    assert len(repair.users(key(lake))) == 2


def test_the_ledger_of_another_table(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """It is in its table, which takes it along."""
    assert repair.key_of(lake.table("t")) == lake.sink("t").key
    with pytest.raises(SettingsError, match="only its query is renamed: --to-query"):
        repair.key_of(lake.table("u"))


def test_by_the_command_and_what_an_audit_says_then(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run changes nothing; afterwards the query is audited under its new name: fine."""
    monkeypatch.setattr(LocalSpark, "session", lambda _: lake.spark)
    checkpoint = CheckpointFiles(tmp_path / "c", {TP: 0})
    for number in range(2):
        batch_of_a_query(lake, checkpoint, number)
    address = f"iceberg:{lake.table('t')}"
    audit = ("audit", "-c", checkpoint.folder, "--ledger", address)
    command = ("ledger", "rename", address, "--to-query", NEW, "--watch", 0)
    version = lake.java("t").version
    code, document = run_here(capsys, *command)
    assert (code, document["executed"], document["heads"]) == (0, False, 1)
    assert "the branches of the query's batches are dropped" in document["remarks"][0]
    assert lake.java("t").version == version
    code, document = run_here(capsys, *command, "--execute")
    assert (code, document["executed"]) == (0, True)
    assert run_here(capsys, *audit)[0] == 0
    code, document = run_here(capsys, *audit, "--query", QUERY)
    (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
    assert (code, finding["kind"]) == (1, "ledger under another name")
    with pytest.raises(SettingsError, match="no ledgers of that name"):
        run_here(capsys, *command[:3], "--query", QUERY, *command[3:], "--execute")
    gap = ("--partition", "flights-0", "--gap", "6..9", "--watch", 0, "--execute")
    code, document = run_here(capsys, "ledger", "accept", address, *gap)
    assert (code, document["gap"], document["query"]) == (0, [6, 9], NEW)
    code, shown = run_here(capsys, "ledger", "show", address, "--history", 9)
    (ledger,) = shown["ledgers"]
    assert [one["gap"] for one in ledger["history"]] == [None, None, None, [6, 9]]


def test_a_table_that_was_rolled_back(lake: Lake, repair: IcebergLedgerRepair) -> None:
    """Is not repaired: the branch would go that has its later rows."""
    before = lake.java("t").main
    write(lake, {TP: OffsetRange(3, 5)}, 1)
    lake.java("t")._table.manageSnapshots().rollbackTo(before).commit()
    stored = repair.reader.ledgers()[key(lake)]
    with pytest.raises(InUseError, match="was taken back to before later batches"):
        refuse_unsettled(repair.reader.label, stored)


@pytest.mark.parametrize("is_rename", [True, False])
def test_dead_letters_that_are_not_published_yet(
    lake: Lake, repair: IcebergLedgerRepair, is_rename: bool
) -> None:
    """A driver died before it published them: who reads the repaired ledger does."""
    entry = entry_of(heads(lake), {TP: OffsetRange(3, 7)}, batch_id=1)
    with broken_off("sink.committed"), pytest.raises(Killed):
        dead_letters.sink_of(lake).apply(dead_letters.batch(lake, 1), entry, plan_of(entry))
    assert dead_letters.dead(lake) == []
    planned(lake, repair, is_rename=is_rename, start=7)()
    dead_letters.sink_of(lake).applied(NEW if is_rename else QUERY)
    assert dead_letters.dead(lake) == [(5, "odd")]
