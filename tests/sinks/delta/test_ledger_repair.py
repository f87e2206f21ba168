"""Repairs of the ledger in a Delta table: what they commit, and who cannot come between."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import (
    ForeignWriterError,
    InUseError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.delta.ledger_repair import DeltaLedgerRepair
from eo_listener.sinks.ledger_repair import plan_acceptance, plan_rename
from eo_listener.spark.jvm import delta_log
from eo_listener.spark.session.local_spark import LocalSpark
from eo_listener.testing.faults import Killed, broken_off, hooked
from eo_listener.testing.made_up_entries import (
    FRAME,
    HOSTILE,
    QUERY,
    entry_of,
    plan_of,
    rows_of,
)
from tests.cli.checkpoint_files import CheckpointFiles
from tests.cli.commands import run_here
from tests.sinks.delta.test_ledger_reader import write as batch_of_a_query

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)
NEW = "renamed"


class Table:
    """A table of a test's own, with what writes to it and repairs it."""

    def __init__(self, delta: SparkSession, path: str) -> None:
        self.delta = delta
        self.path = path
        self.sink = DeltaSink(path=path)
        self.repair = DeltaLedgerRepair(path, LocalSpark({}))

    def write(
        self,
        ranges: Mapping[TopicPartition, OffsetRange],
        number: int = 0,
        *,
        query: str = QUERY,
        found: Mapping[TopicPartition, Head] | None = None,
        by: DeltaSink | None = None,
    ) -> None:
        heads = self.heads(query) if found is None else found
        entry = entry_of(heads, ranges, batch_id=number, query=query)
        frame = self.delta.createDataFrame(rows_of(entry), FRAME)
        (by or DeltaSink(path=self.path)).apply(frame, entry, plan_of(entry))

    def heads(self, query: str = QUERY) -> Mapping[TopicPartition, Head]:
        return DeltaSink(path=self.path).applied(query)

    def key(self, query: str = QUERY) -> LedgerKey:
        return LedgerKey(self.path, query)

    def planned(self, *, is_rename: bool, new: str = NEW) -> Callable[[], None]:
        ledgers = {one: ledger.heads for one, ledger in self.repair.reader.ledgers().items()}
        own = self.key()
        if is_rename:
            return partial(self.repair.rename, plan_rename(ledgers, own, sink=None, query=new))
        entry = plan_acceptance(ledgers[own], own, TP, OffsetRange(3, 8), run_id="repair")
        return partial(self.repair.accept, own.sink, entry)

    def history(self, query: str = QUERY) -> list[Any]:
        self.repair.reader.ledgers()
        return [
            (one.partition, one.verdict, one.head.range, one.gap)
            for one in self.repair.reader.history(self.key(query))
        ]

    def rows(self) -> int:
        return self.delta.newSession().read.format("delta").load(self.path).count()

    def version(self) -> int:
        return len(list(Path(self.path, "_delta_log").glob("*.json"))) - 1


@pytest.fixture
def table(delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Of a batch of both partitions."""
    monkeypatch.setattr(LocalSpark, "session", lambda _: delta)
    monkeypatch.setattr(delta_log, "session_here", lambda: delta)
    made = Table(delta, str(tmp_path / "t"))
    made.write({TP: OffsetRange(0, 3), OTHER: OffsetRange(0, 4)})
    return made


def test_a_gap_and_a_rename(table: Table) -> None:
    """Heads and history go along; no row is touched; the query goes on under its new name."""
    before, version = table.heads(), table.version()
    table.planned(is_rename=False)()
    assert table.heads()[TP].range == OffsetRange(8, 8)
    assert (table.heads()[TP].batch_id, table.heads()[OTHER]) == (0, before[OTHER])
    with pytest.raises(SettingsError, match="its next offset is 8"):
        table.planned(is_rename=False)()
    before, new = table.heads(), HOSTILE[5]
    table.planned(is_rename=True, new=new)()
    assert (table.heads(), table.heads(new)) == ({}, before)
    assert set(table.repair.reader.ledgers()) == {table.key(new)}
    assert table.history(new) == [
        (TP, "first", OffsetRange(0, 3), None),
        (TP, "gap accepted", OffsetRange(8, 8), OffsetRange(3, 8)),
        (TP, f"renamed from query {QUERY}", OffsetRange(8, 8), None),
        (OTHER, "first", OffsetRange(0, 4), None),
        (OTHER, f"renamed from query {QUERY}", OffsetRange(4, 4), None),
    ]
    assert (table.rows(), table.version()) == (7, version + 2)
    table.write({TP: OffsetRange(8, 10)}, 1, query=new)
    assert table.heads(new)[TP].range == OffsetRange(8, 10)
    assert table.history(new)[3] == (TP, "next", OffsetRange(8, 10), None)
    assert table.rows() == 9
    moved = DeltaSink(path=table.path).moved_by("query-1")
    assert moved is not None
    assert set(moved) == {table.key(new)}


def test_there_and_back(table: Table) -> None:
    """A query that gets its old name back has its ledger as it was, and goes on."""
    before = table.heads()
    table.planned(is_rename=True)()
    ledgers = {one: ledger.heads for one, ledger in table.repair.reader.ledgers().items()}
    table.repair.rename(plan_rename(ledgers, table.key(NEW), sink=None, query=QUERY))
    assert (table.heads(), table.heads(NEW)) == (before, {})
    assert [one[1] for one in table.history()] == 2 * [
        "first",
        f"renamed from query {QUERY}",
        f"renamed from query {NEW}",
    ]
    table.write({TP: OffsetRange(3, 5)}, 1)
    assert table.heads()[TP].range == OffsetRange(3, 5)


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_ledger_that_has_moved(table: Table, is_rename: bool) -> None:
    """What was planned on older heads is refused, and commits nothing."""
    done = table.planned(is_rename=is_rename)
    table.write({TP: OffsetRange(3, 5)}, 1)
    before, version = table.heads(), table.version()
    with pytest.raises(InUseError, match="has moved meanwhile"):
        done()
    assert (table.heads(), table.heads(NEW), table.version()) == (before, {}, version)


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_batch_in_the_middle(table: Table, is_rename: bool) -> None:
    """It takes the number that the repair was to have, which Delta then skips: refused."""
    done = table.planned(is_rename=is_rename)
    reached: list[str] = []

    def hook(name: str) -> None:
        if name == "sink.commit-sent" and not reached:
            reached.append(name)
            table.write({TP: OffsetRange(3, 5)}, 1)

    with hooked(hook), pytest.raises(InUseError, match="has moved meanwhile"):
        done()
    assert reached
    assert table.heads()[TP].range == OffsetRange(3, 5)
    assert (table.heads(NEW), table.rows()) == ({}, 9)


@pytest.mark.parametrize("is_rename", [True, False])
def test_a_batch_that_was_judged_before(table: Table, is_rename: bool) -> None:
    """A driver that was asleep in its batch comes back: nothing of that is committed."""
    done, found = table.planned(is_rename=is_rename), table.heads()
    reached: list[str] = []

    def hook(name: str) -> None:
        if name == "sink.commit-sent" and not reached:
            reached.append(name)
            done()

    with hooked(hook), pytest.raises(ForeignWriterError):
        table.write({TP: OffsetRange(3, 5)}, 1, found=found)
    assert reached
    with pytest.raises(ForeignWriterError):
        table.write({TP: OffsetRange(3, 5)}, 1, found=found)
    after = table.heads(NEW if is_rename else QUERY)
    assert after[TP].range == (OffsetRange(0, 3) if is_rename else OffsetRange(8, 8))
    assert table.rows() == 7


def test_a_batch_under_the_new_name_in_the_middle(table: Table) -> None:
    """Delta compares the numbers of one name alone: then the ledger is refused, and says why."""
    done = table.planned(is_rename=True)
    reached: list[str] = []

    def hook(name: str) -> None:
        if name == "sink.commit-sent" and not reached:
            reached.append(name)
            table.write({TP: OffsetRange(0, 3)}, 0, query=NEW)

    with hooked(hook), pytest.raises(SinkError, match="or the ledger renamed"):
        done()
    for query in (NEW, QUERY):
        with pytest.raises(SinkError, match="or the ledger renamed"):
            table.heads(query)
    table.delta.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF {table.version() - 1}")
    assert table.heads()[OTHER].range == OffsetRange(0, 4)
    assert table.heads(NEW)[TP].range == OffsetRange(0, 3)


@pytest.mark.parametrize("is_rename", [True, False])
def test_killed_in_the_middle(table: Table, is_rename: bool) -> None:
    """Before the commit nothing is there; after it all is, and a second one is refused."""
    done, before = table.planned(is_rename=is_rename), table.heads()
    version = table.version()
    with broken_off("sink.commit-sent"), pytest.raises(Killed):
        done()
    assert (table.heads(), table.heads(NEW), table.version()) == (before, {}, version)
    with broken_off("sink.committed"), pytest.raises(Killed):
        done()
    assert table.heads(NEW if is_rename else QUERY)[OTHER] == before[OTHER]
    with pytest.raises(InUseError, match="has moved meanwhile"):
        done()
    assert table.version() == version + 1


def test_a_table_that_is_restored_to_before_a_rename(table: Table) -> None:
    """The old name has its heads again, the new one none; the statement that undoes it is named."""
    before, version = table.heads(), table.version()
    table.planned(is_rename=True)()
    table.delta.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF {version}")
    assert (table.heads(), table.heads(NEW)) == (before, {})
    back = table.repair.reader.ledgers()[table.key(NEW)].taken_back
    assert back is not None
    table.delta.sql(back.fix)
    assert (table.heads(), table.heads(NEW)) == ({}, before)


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        (FRAME.replace("offset bigint", "offset bigint NOT NULL"), ""),
        (FRAME, "PARTITIONED BY (topic)"),
    ],
)
def test_a_table_with_columns_of_a_kind(
    delta: SparkSession, table: Table, columns: str, more: str
) -> None:
    """Also where columns must not be null, or the table has partitions."""
    path = f"{table.path}-other"
    delta.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {more}")
    made = Table(delta, path)
    made.write({TP: OffsetRange(0, 3)})
    made.planned(is_rename=False)()
    made.planned(is_rename=True)()
    assert made.heads(NEW)[TP].range == OffsetRange(8, 8)
    assert made.rows() == 3


def test_the_commit_has_no_rows(table: Table) -> None:
    """And says in the table's own history what it is."""
    table.planned(is_rename=True)()
    log = Path(table.path, "_delta_log", f"{table.version():020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in log]
    assert not [one for one in actions if "add" in one or "remove" in one]
    said = next(one["commitInfo"]["userMetadata"] for one in actions if "commitInfo" in one)
    assert {"renamed", "ledger"} <= json.loads(said).keys()


def test_the_ledger_of_another_table(table: Table) -> None:
    """It is in its table, which takes it along."""
    assert table.repair.key_of(table.path) == table.path
    with pytest.raises(SettingsError, match="only its query is renamed: --to-query"):
        table.repair.key_of("/elsewhere")


def test_by_the_command_and_what_an_audit_says_then(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run changes nothing; afterwards the query is audited under its new name: fine."""
    path, checkpoint = tmp_path / "audited", CheckpointFiles(tmp_path / "c", {TP: 0})
    for number in range(2):
        batch_of_a_query(table.delta, path, checkpoint, number)
    address = f"delta:{path}"
    audit = ("audit", "-c", checkpoint.folder, "--ledger", address)
    command = ("ledger", "rename", address, "--to-query", NEW, "--watch", 0)
    files = sorted(one.name for one in (path / "_delta_log").iterdir())
    code, document = run_here(capsys, *command)
    assert (code, document["executed"], document["heads"]) == (0, False, 1)
    assert sorted(one.name for one in (path / "_delta_log").iterdir()) == files
    code, document = run_here(capsys, *command, "--execute")
    assert (code, document["executed"]) == (0, True)
    assert run_here(capsys, *audit)[0] == 0
    code, document = run_here(capsys, *audit, "--query", QUERY)
    (finding,) = (one for one in document["findings"] if one["severity"] == "problem")
    assert (code, finding["kind"]) == (1, "ledger under another name")
    with pytest.raises(SettingsError, match="no ledgers of that name"):
        run_here(capsys, *command[:3], "--query", QUERY, *command[3:], "--execute")
    gap = ("--partition", "flights-0", "--gap", "2..5", "--watch", 0, "--execute")
    code, document = run_here(capsys, "ledger", "accept", address, *gap)
    assert (code, document["gap"], document["query"]) == (0, [2, 5], NEW)
    code, shown = run_here(capsys, "ledger", "show", address, "--history", 9)
    (ledger,) = shown["ledgers"]
    assert [one["gap"] for one in ledger["history"]] == [None, None, None, [2, 5]]
