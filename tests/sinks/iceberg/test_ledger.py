"""Which ledger of a table counts: after other commits, rollbacks, crashes and expired snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from eo_listener.model.errors import SinkError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.sinks.iceberg.names import new_branch
from eo_listener.sinks.iceberg.published import Published
from eo_listener.sinks.iceberg.snapshots import PROPERTY
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataSearch
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

TP = TopicPartition("flights", 0)
OTHER_QUERY = HOSTILE[0]


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
        """Of a history that is whole."""
        assert committed == 1000 * snapshot_id
        return snapshot_id in self.history

    def snapshot(self, snapshot_id: int) -> str | None:
        """One snapshot as JSON."""
        self.reads += 1
        return self.texts.get(snapshot_id)

    def expired(self, snapshot_id: int, *, child: int, committed: int) -> str | None:
        """One that older metadata have, which are looked for by the time of what was made of it."""
        assert child > snapshot_id
        assert committed == 1000 * child
        return self.older.get(snapshot_id)

    def replace(self, *, empty: bool = False) -> None:
        """CREATE OR REPLACE TABLE: main begins anew, and branches stay."""
        self.main = None if empty else self.add(None)

    def add(self, parent: int | None, ledger: LedgerText | None = None, **summary: str) -> int:
        """A new snapshot, on no branch yet; its id is its sequence number."""
        at = max(self.texts, default=0) + 1
        if ledger is not None:
            summary = {PROPERTY: ledger.encode(), "added-records": "5"}
        summary = {key.replace("_", "-"): value for key, value in summary.items()}
        given = {
            "snapshot-id": at,
            "sequence-number": at,
            "timestamp-ms": 1000 * at,
            "summary": summary,
        }
        if parent is not None:
            given["parent-snapshot-id"] = parent
        self.texts[at] = json.dumps(given)
        return at

    def stage(self, number: int, query: str = QUERY) -> str:
        """A batch on a branch of its own."""
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
        """A batch from its beginning to its end."""
        branch = self.stage(number, query)
        self.publish(branch)
        return branch

    def commit(self, times: int = 1) -> None:
        """Commits of other programs."""
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


def check_older_metadata_prove(table: Table, expected: Published) -> None:
    """Where all but the heads has expired; without those metadata nothing does."""
    table.expire(logged=True)
    assert read(table) == expected
    table.older = {}
    with pytest.raises(SinkError, match="nothing says"):
        read(table)


def test_a_table_without_a_ledger_has_no_heads() -> None:
    """An empty one, and one that others have written."""
    table = Table()
    assert read(table).ledger == LedgerText(QUERY, 0, {})
    table.commit(3)
    assert read(table).ledger == LedgerText(QUERY, 0, {})


def test_the_newest_ledger_of_main_counts() -> None:
    """Behind the commits of others and of other queries, and however many there are."""
    table = Table()
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


def test_the_history_is_what_main_has_left() -> None:
    """Of this query alone, from the newest back to the first, or to one that has expired."""
    table = Table()
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


def test_what_was_never_published_does_not_count() -> None:
    """A branch that a crash has left, before the first batch or after others."""
    table = Table()
    table.stage(1)
    assert read(table).ledger.number == 0
    table.write(1)
    table.stage(2)
    assert read(table) == Published(ledger(1), table.main)
    table.commit()
    assert read(table).rolled_back is None


def test_a_batch_that_was_never_published_is_no_rollback() -> None:
    """Also where others have dropped the branch of the ledger, which shows it otherwise."""
    table = Table()
    table.write(1)
    branch = table.write(2)
    table.stage(3)
    del table.branches[branch]
    assert read(table) == Published(ledger(2), table.main)
    table.commit()
    assert read(table).rolled_back is None


def test_a_rollback_takes_the_ledger_back() -> None:
    """With the rows; the branch that has them still is named."""
    table = Table()
    table.write(1)
    before = table.main
    table.write(2)
    branch = table.write(3)
    table.main = before
    assert read(table) == Published(ledger(1), before, branch)
    table.commit()
    assert read(table) == Published(ledger(1), before, branch)
    table.main = None
    assert read(table).ledger.number == 0


def test_a_snapshot_is_read_once() -> None:
    """They never change; main and branches are asked for each time. What is not used is let go."""
    table = Table()
    table.write(1)
    table.commit(50)
    reader = PublishedLedgers("the table", lambda _: False)
    reader.published(table, QUERY)
    reads = table.reads
    reader.published(table, QUERY)
    assert table.reads == reads
    table.write(2)
    assert reader.published(table, QUERY).ledger == ledger(2)
    for number in range(3, 9):
        table.write(number)
        reader.published(table, QUERY)
    assert len(reader._known) + len(reader._before) < 5


def test_expiry_before_the_ledger_is_no_rollback() -> None:
    """A commit between it and main's head has gone; files of its rows prove that it was
    published.
    """
    table, at = behind_commits()
    table.expire()
    assert read(table, files_of=(at,)).ledger == ledger(4)


def test_a_rollback_is_not_hidden_by_expiry() -> None:
    """The taken back batch is newer than all that is known of main."""
    table = Table()
    table.commit(3)
    root = table.main
    table.write(1)
    table.main = root
    table.expire()
    assert read(table).ledger.number == 0


def test_where_nothing_tells_nothing_is_guessed() -> None:
    """Expired, and no file left: published and compacted, or rolled back and overwritten."""
    table, at = behind_commits()
    table.expire()
    with pytest.raises(SinkError, match=f"is in snapshot {at}, and nothing says") as refused:
        read(table)
    assert 'on_expired="accept"' in str(refused.value.fix)
    assert read(table, accept=True).ledger == ledger(4)


def test_older_metadata_prove_a_rollback() -> None:
    """Others have written since, and all but the heads has expired: the ledger is one of those."""
    table = Table()
    table.write(1)
    table.commit()
    table.write(2)
    before = table.main
    branch = table.write(3)
    table.main = before
    table.commit(2)
    check_older_metadata_prove(table, Published(ledger(2), before, branch))


def test_a_rollback_far_back_is_not_taken_for_a_new_table() -> None:
    """Main's head is older than the branch, and what was before it has expired: a ledger too."""
    table = Table()
    table.write(1)
    at = table.main
    table.commit()
    before = table.main
    branch = table.write(2)
    table.main = before
    check_older_metadata_prove(table, Published(ledger(1), at, branch))


def test_older_metadata_are_read_only_where_they_can_tell() -> None:
    """Not for a query that is new to the table, nor for what a crash has left of a first batch."""

    class Untouched(Table):
        def expired(self, snapshot_id: int, **_: int) -> str | None:
            raise AssertionError

    table = Untouched()
    table.commit(9)
    table.expire()
    table.stage(1)
    assert read(table).ledger.number == 0
    assert read(table, OTHER_QUERY).ledger.number == 0


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (MetadataSearch(), r"\(0 older metadata"),
        (
            MetadataSearch(files=3, back_to=90_000, deleted="s3://a/b/00002-x.metadata.json"),
            r"00002-x\.metadata\.json of that time was deleted \(3 .* 1970-01-01 00:01:30 UTC\)",
        ),
        (
            MetadataSearch(files=5000, back_to=90_000, bounded=True),
            "5000 older .* were read, back to 1970-01-01 00:01:30 UTC, and no more are",
        ),
    ],
    ids=["none", "deleted", "bounded"],
)
def test_what_was_looked_at_is_said(search: MetadataSearch, said: str) -> None:
    """A busy table's metadata are not called deleted where they were not all read."""
    table, _ = behind_commits()
    table.expire()
    table.search = search
    with pytest.raises(SinkError, match=r"nothing says whether main.*snapshot \d+.*" + said):
        read(table)
    table = Table()
    table.write(1)
    staged = table.add(table.main)
    table.pick(staged)
    del table.texts[staged]
    table.search = search
    with pytest.raises(SinkError, match=f"nothing says whether snapshot.*{said}"):
        read(table)


@pytest.mark.parametrize("empty", [True, False])
def test_a_replaced_table_is_named(empty: bool) -> None:
    """Main begins anew behind the branch of the last batch, which is still there.

    So is one that a driver has left, which was never in main, and is not named.
    """
    table = Table()
    table.write(1)
    branch = table.write(2)
    table.stage(3)
    table.replace(empty=empty)
    assert read(table) == Published(LedgerText(QUERY, 0, {}), None, replaced=branch)
    assert read(table, OTHER_QUERY).replaced is None
    table.commit(2)
    assert read(table).replaced == branch
    begun = table.write(1)
    assert read(table) == Published(ledger(1), table.branches[begun])


def test_a_rollback_is_no_replacement() -> None:
    """Nor is what a driver has left that died in its first batch, and others have written since."""
    table = Table()
    table.commit()
    first = table.main
    table.write(1)
    branch = table.write(2)
    table.main = first
    table.commit()
    assert read(table) == Published(LedgerText(QUERY, 0, {}), None, rolled_back=branch)
    table = Table()
    table.stage(1)
    table.commit()
    assert read(table) == Published(LedgerText(QUERY, 0, {}), None)
    table = Table()
    table.commit()
    table.stage(1)
    assert read(table) == Published(LedgerText(QUERY, 0, {}), None)


def test_a_cherry_pick_of_a_batch_is_refused() -> None:
    """After a rollback: its rows are in main, and its ledger is not."""
    table = Table()
    table.write(1)
    before = table.main
    table.write(2)
    table.write(3)
    third = table.main
    assert third is not None
    table.main = before
    table.pick(third)
    for _ in range(2):
        with pytest.raises(SinkError, match=r"rows of a batch of 'flights'.*without") as refused:
            read(table, accept=True)
        assert f"was cherry-picked from {third}" in str(refused.value.cause)
        assert f"Roll main back to snapshot {before};" in str(refused.value.fix)
        table.commit()
    assert read(table, OTHER_QUERY).ledger.number == 0
    table.main = before
    assert read(table).ledger == ledger(1)


def test_a_rollback_into_the_middle_of_a_batch_is_refused() -> None:
    """Its statements have written rows, and its ledger is in its last snapshot."""
    table = Table()
    table.write(1)
    before = table.main
    begun = table.add(before, eo_batch_of=QUERY)
    statement = table.add(table.add(begun))
    table.branches[new_branch(QUERY, "run")] = table.add(statement, ledger(2))
    table.main = statement
    for _ in range(2):
        with pytest.raises(SinkError, match=r"rows of a batch of 'flights'.*without") as refused:
            read(table, accept=True)
        assert f"begins with snapshot {begun}" in str(refused.value.cause)
        assert f"Roll main back to snapshot {before}," in str(refused.value.fix)
        assert read(table, OTHER_QUERY).ledger.number == 0
        table.commit()
    table.main = begun
    assert read(table).ledger == ledger(1), "that one is empty"


def test_a_cherry_pick_of_what_a_statement_wrote_is_refused() -> None:
    """Its ledger is in a later snapshot; also by a detour over another cherry-pick."""
    table = Table()
    table.write(1)
    before = table.main
    begun = table.add(before, eo_batch_of=QUERY)
    statement = table.add(begun)
    table.commit()
    table.pick(statement)
    picked = table.main
    with pytest.raises(SinkError, match="without their ledger"):
        read(table)
    assert picked is not None
    table.main = before
    table.commit()
    table.pick(picked)
    with pytest.raises(SinkError, match="without their ledger"):
        read(table)


def test_a_cherry_pick_of_others_is_none_of_ours() -> None:
    """What other programs have staged and published, on top of a batch of the query."""
    table = Table()
    table.write(1)
    staged = table.add(table.main, wap_id="audit")
    other = table.add(table.main, eo_batch_of=OTHER_QUERY)
    table.commit()
    table.pick(staged)
    table.pick(table.add(other))
    assert read(table).ledger == ledger(1)
    table.write(2)
    assert read(table).ledger == ledger(2)


def test_a_cherry_pick_of_what_has_expired_is_not_guessed() -> None:
    """Unless older metadata have it, or the query has never written to the table."""
    table = Table()
    table.write(1)
    staged = table.add(table.main)
    table.commit()
    table.pick(staged)
    table.older[staged] = table.texts.pop(staged)
    assert read(table).ledger == ledger(1)
    table.older = {}
    with pytest.raises(SinkError, match="nothing says whether snap") as refused:
        read(table)
    assert 'on_expired="accept"' in str(refused.value.fix)
    assert read(table, accept=True).ledger == ledger(1)
    assert read(table, OTHER_QUERY).ledger.number == 0
    batch = table.stage(2)
    at = table.branches.pop(batch)
    table.pick(at)
    table.older[at] = table.texts.pop(at)
    with pytest.raises(SinkError, match="without their ledger"):
        read(table, accept=True)


def test_without_sequence_numbers_expiry_hides_no_ledger() -> None:
    """A table of format 1 has none: the ledger is found by its files, and else not guessed."""
    table, at = behind_commits()
    table.expire()
    table.texts = {
        one: text.replace(f'"sequence-number": {one}, ', "") for one, text in table.texts.items()
    }
    assert read(table, files_of=(at,)).ledger == ledger(4)
    with pytest.raises(SinkError, match=f"is in snapshot {at}, and nothing says"):
        read(table)
    assert read(table, accept=True).ledger == ledger(4)


def test_a_ledger_of_another_format_is_refused() -> None:
    """It is never taken for a table without a ledger."""
    table = Table()
    table.write(1)
    assert table.main is not None
    table.texts[table.main] = table.texts[table.main].replace('\\"v\\":1', '\\"v\\":2')
    with pytest.raises(SinkError, match="the table: the ledger in a commit"):
        read(table)
