"""Which ledger of a table counts: after other commits, rollbacks, crashes and expired snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from eo_listener.errors import SinkError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg.ledger import Published, PublishedLedgers
from eo_listener.sinks.iceberg.names import new_branch
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataSearch
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

TP = TopicPartition("flights", 0)
OTHER_QUERY = HOSTILE[0]
WITHOUT = "without their ledger"


@dataclass
class Table:
    """A table's snapshots and branches, as Iceberg keeps them."""

    main: int | None = None
    branches: dict[str, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    older: dict[int, str] = field(default_factory=dict)
    reads: int = 0
    search: MetadataSearch = field(default_factory=MetadataSearch)
    name: str = "lake.db.delays"
    history: set[int | None] = field(default_factory=set)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "main" and hasattr(self, "history"):
            self.history.add(self.main)

    def was_main(self, snapshot_id: int, *, committed: int) -> bool | None:
        assert committed == 1000 * snapshot_id
        return snapshot_id in self.history

    def snapshot(self, snapshot_id: int) -> str | None:
        self.reads += 1
        return self.texts.get(snapshot_id)

    def expired(self, snapshot_id: int, *, child: int, committed: int) -> str | None:
        """One that older metadata have, which are looked for by the time of what was made of it."""
        assert child > snapshot_id
        assert committed == 1000 * child
        return self.older.get(snapshot_id)

    def replace(self) -> None:
        """CREATE OR REPLACE TABLE: main begins anew, and branches stay."""
        self.main = self.add(None)

    def add(self, parent: int | None, ledger: LedgerText | None = None, **summary: str) -> int:
        """A new snapshot, on no branch yet; its id is its sequence number."""
        at = max(self.texts, default=0) + 1
        if ledger is not None:
            summary = {PROPERTY: ledger.encode(), "added-records": "5"}
        summary = {key.replace("_", "-"): value for key, value in summary.items()}
        given: dict[str, object] = {"snapshot-id": at, "timestamp-ms": 1000 * at}
        given |= {"sequence-number": at, "summary": summary}
        if parent is not None:
            given["parent-snapshot-id"] = parent
        self.texts[at] = json.dumps(given)
        return at

    def stage(self, number: int, query: str = QUERY) -> str:
        branch = new_branch(query, "run")
        self.branches[branch] = self.add(self.main, ledger(number, query))
        return branch

    def publish(self, branch: str, query: str = QUERY) -> None:
        """Main moved on to it, and the query's other branches dropped."""
        self.main = self.branches[branch]
        for name in list(self.branches):
            if name != branch and name.split("_")[1] == branch.split("_")[1]:
                del self.branches[name]

    def write(self, number: int, query: str = QUERY) -> str:
        branch = self.stage(number, query)
        self.publish(branch)
        return branch

    def commit(self, times: int = 1) -> None:
        for _ in range(times):
            self.main = self.add(self.main)

    def pick(self, snapshot_id: int) -> None:
        """A snapshot's rows behind main's head, as `cherrypick_snapshot` puts them there."""
        self.main = self.add(self.main, source_snapshot_id=str(snapshot_id))

    def expire(self, *, logged: bool = False) -> None:
        """All snapshots but the heads of branches; with `logged`, older metadata have them."""
        kept = {self.main, *self.branches.values()}
        if logged:
            self.older |= self.texts
        self.texts = {at: text for at, text in self.texts.items() if at in kept}


def ledger(number: int, query: str = QUERY) -> LedgerText:
    heads = heads_of(entry_of({}, {TP: OffsetRange(number - 1, number)}, query=query))
    return LedgerText(query, number, heads)


def behind_commits() -> tuple[Table, int]:
    """A table with batch 4 behind commits of others, and batch 5 staged; and 4's snapshot."""
    table = Table()
    at = table.branches[table.write(4)]
    table.stage(5)
    table.commit(3)
    return table, at


def read(
    table: Table, query: str = QUERY, *, files_of: tuple[int, ...] = (), accept: bool = False
) -> Published:
    reader = PublishedLedgers("the table", lambda at: at in files_of)
    return reader.published(table, query, accept_expired=accept)


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_table_without_a_ledger_has_no_heads(table: Table) -> None:
    """An empty one, and one that others have written."""
    assert read(table).ledger == LedgerText(QUERY, 0, {})
    table.commit(3)
    assert read(table).ledger == LedgerText(QUERY, 0, {})


def test_the_newest_ledger_of_main_counts(table: Table) -> None:
    """Behind the commits of others and of other queries, and however many there are."""
    table.write(1)
    table.write(2)
    table.commit(2)
    table.write(7, OTHER_QUERY)
    assert read(table).ledger == ledger(2)
    assert read(table, OTHER_QUERY).ledger == ledger(7, OTHER_QUERY)
    assert PublishedLedgers("", bool).queries(table) == {QUERY, OTHER_QUERY}


def steps(table: Table) -> list[tuple[int, bool, int | None]]:
    """Of each batch, the newest first: where it ended, whether what was before is known, rows."""
    reader = PublishedLedgers("the table", lambda _: False)
    found = reader.steps(table, QUERY)
    return [(one.heads[TP].range.until, one.before is not None, one.rows) for one in found]


def test_the_history_is_what_main_has_left(table: Table) -> None:
    """Of this query alone, from the newest back to the first, or to one that has expired."""
    table.write(1)
    table.commit()
    table.write(7, OTHER_QUERY)
    table.write(2)
    second = table.main
    table.stage(9)
    table.main = table.add(table.main, eo_batch_of=QUERY)
    table.write(3)
    assert steps(table) == [(3, True, None), (2, True, 5), (1, True, 5)]
    table.main = second
    assert steps(table) == [(2, True, 5), (1, True, 5)]
    assert second is not None
    del table.texts[second - 1]
    assert steps(table) == [(2, False, 5)]


def test_what_was_never_published_does_not_count(table: Table) -> None:
    """A branch that a crash has left, before the first batch or after others, is no rollback."""
    table.stage(1)
    table.commit()
    assert read(table) == Published(LedgerText(QUERY, 0, {}), None)
    table.write(1)
    table.stage(2)
    assert read(table) == Published(ledger(1), table.main)
    table.commit()
    assert read(table).rolled_back is None


def test_a_rollback_takes_the_ledger_back(table: Table) -> None:
    """With the rows; the branch that has them still is named, also if no batch is left."""
    table.commit()
    empty = table.main
    table.write(1)
    before = table.main
    table.write(2)
    branch = table.write(3)
    table.main = before
    assert read(table) == Published(ledger(1), before, branch)
    table.commit()
    assert read(table) == Published(ledger(1), before, branch)
    table.main = empty
    table.commit()
    assert read(table) == Published(LedgerText(QUERY, 0, {}), None, rolled_back=branch)


def test_a_snapshot_is_read_once(table: Table) -> None:
    """They never change; main and branches are asked for each time. What is not used is let go."""
    table.write(1)
    table.commit(50)
    reader = PublishedLedgers("the table", lambda _: False)
    reader.published(table, QUERY)
    reads = table.reads
    reader.published(table, QUERY)
    assert table.reads == reads
    for number in range(2, 9):
        table.write(number)
        assert reader.published(table, QUERY).ledger == ledger(number)
    assert len(reader._snapshots) + len(reader._snapshots_before) < 5


@pytest.mark.parametrize("is_numbered", [True, False], ids=["format 2", "format 1"])
def test_where_nothing_tells_nothing_is_guessed(is_numbered: bool) -> None:
    """Snapshots behind main's head have expired: a file of the batch proves it, or nothing does."""
    table, at = behind_commits()
    table.expire()
    if not is_numbered:
        table.texts = {
            one: text.replace(f'"sequence-number": {one}, ', "")
            for one, text in table.texts.items()
        }
    assert read(table, files_of=(at,)).ledger == ledger(4)
    with pytest.raises(SinkError, match=f"snapshot {at}, and nothing shows") as refused:
        read(table)
    assert 'on_expired="accept"' in str(refused.value.fix)
    assert read(table, accept=True).ledger == ledger(4)


def test_a_rollback_into_the_middle_of_a_batch_is_refused(table: Table) -> None:
    """Its statements have written rows, and its ledger is in its last snapshot."""
    table.write(1)
    before = table.main
    begun = table.add(before, eo_batch_of=QUERY)
    statement = table.add(table.add(begun))
    table.branches[new_branch(QUERY, "run")] = table.add(statement, ledger(2))
    table.main = statement
    for _ in range(2):
        with pytest.raises(SinkError, match=WITHOUT) as refused:
            read(table, accept=True)
        assert f"snapshot {begun}" in str(refused.value.cause)
        assert f"snapshot {before}," in str(refused.value.fix)
        assert read(table, OTHER_QUERY).ledger.number == 0
        table.commit()
    table.main = begun
    assert read(table).ledger == ledger(1), "that one is empty"


def test_a_cherry_pick_of_what_a_statement_wrote_is_refused(table: Table) -> None:
    """Its ledger is in a later snapshot; also by a detour over another cherry-pick."""
    table.write(1)
    before = table.main
    statement = table.add(table.add(before, eo_batch_of=QUERY))
    for _ in range(2):
        table.main = before
        table.commit()
        table.pick(statement)
        with pytest.raises(SinkError, match=WITHOUT):
            read(table)
        assert read(table, OTHER_QUERY).ledger.number == 0
        assert table.main is not None
        statement = table.main


def test_a_cherry_pick_of_what_has_expired_is_not_guessed(table: Table) -> None:
    """Unless older metadata have it, or the query has never written to the table."""
    table.write(1)
    staged = table.add(table.main)
    table.commit()
    table.pick(staged)
    table.older[staged] = table.texts.pop(staged)
    assert read(table).ledger == ledger(1)
    table.older = {}
    with pytest.raises(SinkError, match="nothing shows") as refused:
        read(table)
    assert 'on_expired="accept"' in str(refused.value.fix)
    assert read(table, accept=True).ledger == ledger(1)
    assert read(table, OTHER_QUERY).ledger.number == 0
    batch = table.stage(2)
    at = table.branches.pop(batch)
    table.pick(at)
    table.older[at] = table.texts.pop(at)
    with pytest.raises(SinkError, match=WITHOUT):
        read(table, accept=True)


def test_a_ledger_of_another_format_is_refused(table: Table) -> None:
    """It is never taken for a table without a ledger."""
    table.write(1)
    assert table.main is not None
    table.texts[table.main] = table.texts[table.main].replace('\\"v\\":1', '\\"v\\":2')
    with pytest.raises(SinkError, match="the table: the ledger in a commit"):
        read(table)
