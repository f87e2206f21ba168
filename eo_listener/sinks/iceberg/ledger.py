"""Finds a query's valid ledger in the snapshots of a table. Reads only through its arguments.

The sink publishes a batch's rows and ledger together, as one snapshot of the branch main. So a
query's valid ledger is the first ledger of the query that a search from main's head back through
its ancestors finds.

The batch's branch keeps the snapshot with the ledger when other snapshots expire. But an expired
snapshot between the ledger's snapshot and main's head breaks the chain. Then there are three cases:
the sink published the branch's head; the sink published it and a rollback removed it; or the sink
never published it. Older metadata of the table still has the parents of expired snapshots, and
proves which case it is. If the older metadata was deleted too, sequence numbers help, because they
grow along a chain: a branch head that is newer than the oldest known snapshot of main cannot be an
ancestor of that snapshot. If the branch head is older, its files in main prove that it was
published; if main has none of its files, nobody can tell.

A cherry-picked snapshot has the rows of another snapshot, but not its summary. So if main has a
snapshot that was cherry-picked from a batch, and no later ledger of the batch's query, main has
rows that the ledger does not record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from eo_listener.errors import FormatError, SinkError
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.iceberg.names import is_branch_of, is_branch_of_any
from eo_listener.sinks.iceberg.snapshots import Snapshot, Snapshots, parse_owner, parse_snapshot
from eo_listener.sinks.ledger_steps import LedgerStep
from eo_listener.sinks.ledger_text import Heads, LedgerText
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataSearch


@dataclass(frozen=True, slots=True)
class Published:
    """The ledger of a query, and the snapshot that has it.

    `rolled_back` is a branch with later batches, which a rollback has removed from main; `replaced`
    is a branch with batches of an earlier table, which a new table of the same name has replaced.
    """

    ledger: LedgerText
    snapshot: int | None
    rolled_back: str | None = None
    replaced: str | None = None

    @property
    def heads(self) -> Mapping[TopicPartition, Head]:
        """All heads of the query."""
        return self.ledger.heads


class PublishedLedgers:
    """Finds the ledgers in a table's snapshots.

    The class keeps the snapshots that the previous search read, since snapshots never change.
    `has_files_of(snapshot)` returns True if main still has files that this snapshot added.
    """

    def __init__(self, label: str, has_files_of: Callable[[int], bool]) -> None:
        self._label = label
        self._has_files_of = has_files_of
        self._snapshots: dict[int, Snapshot] = {}
        self._snapshots_before: dict[int, Snapshot] = {}

    def published(
        self,
        table: Snapshots,
        query: str,
        *,
        accept_expired: bool = False,
        had_ledger: bool = False,
    ) -> Published:
        """Return the ledger of `query`; it has no heads if the query has no ledger in main.

        `had_ledger` is True if main certainly had a ledger of the query. Raises SinkError if the
        ledger cannot be determined, or has a different format.
        """
        self._snapshots_before, self._snapshots = self._snapshots, {}
        heads = self._of(table, query)
        since: list[Snapshot] = []
        snapshot: Snapshot | None = None
        for snapshot in self._chain(table, heads):
            if snapshot.ledger is not None and snapshot.ledger.query == query:
                break
            since.append(snapshot)
        else:
            snapshot = None
            if since and since[-1].parent is not None:
                snapshot = self._behind(
                    table, query, heads, since[-1], accept_expired=accept_expired
                )
        # A query that is new to the table has no rows in it, whatever has expired.
        written = snapshot is not None or bool(heads)
        self._check_whole(query, since)
        self._check_picked(table, query, since, written=written, accept_expired=accept_expired)
        if snapshot is None or snapshot.ledger is None:
            first = since[-1] if since else None
            replaced = _replaced(first, heads, had_ledger=had_ledger)
            return Published(LedgerText(query, 0, {}), None, _taken_out(first, heads), replaced)
        ledger = snapshot.ledger
        once_main = self._once_main(table, ledger, heads)
        if any(head.id == snapshot.id for head in once_main.values()):
            return Published(ledger, snapshot.id)  # no other branch was ever published
        return Published(ledger, snapshot.id, _latest(once_main, after=ledger.number))

    def moved_by(
        self, table: Snapshots, key: str, query_id: str
    ) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Return all heads in the table, of any query, whose last move was by `query_id`.

        `key` is the sink's key. The result includes each ledger, unless something proves that it is
        not valid. Raises SinkError.
        """
        ledgers = {}
        for query in self.queries(table):
            heads = self.published(table, query, accept_expired=True).heads
            moved = {tp: head for tp, head in heads.items() if head.query_id == query_id}
            if moved:
                ledgers[LedgerKey(key, query)] = moved
        return ledgers

    def queries(self, table: Snapshots) -> set[str]:
        """Return the names of all queries that have a ledger in the table.

        The method reads each snapshot of main, and keeps none in memory. Raises SinkError.
        """
        names = self.with_branch(table)
        at = table.main
        while at is not None and (text := table.snapshot(at)) is not None:
            with self._readable():
                query, at = parse_owner(text)
            if query is not None:
                names.add(query)
        return names

    def with_branch(self, table: Snapshots) -> set[str]:
        """Return the names of the queries that have a branch in the table.

        A query that has written has a branch, unless somebody dropped its branches.
        """
        heads = (
            self.read(table, at) for name, at in table.branches.items() if is_branch_of_any(name)
        )
        return {head.ledger.query for head in heads if head is not None and head.ledger is not None}

    def letters_of(self, table: Snapshots, published: Published) -> str | None:
        """Return the place of the dead letters of the ledger's last batch, if it has any."""
        snapshot = None if published.snapshot is None else self.read(table, published.snapshot)
        return None if snapshot is None else snapshot.letters

    def leads_to(self, table: Snapshots, branch: str) -> bool:
        """Return True if main can be fast-forwarded to `branch`, or if that is unknown.

        It is unknown if snapshots between main and the branch's head have expired.
        """
        main = None if table.main is None else self.read(table, table.main)
        at: int | None = table.branches[branch]
        while at is not None and at != table.main:
            snapshot = self.read(table, at)
            if snapshot is None or main is None:
                return True
            if snapshot.sequence < main.sequence:
                return False
            at = snapshot.parent
        return at is not None

    def steps(self, table: Snapshots, query: str) -> Iterator[LedgerStep]:
        """Yield the ledger in main after each batch of the query, from the newest to the oldest.

        The iterator ends at the first expired snapshot. Raises SinkError.
        """
        newer: Snapshot | None = None
        several = False  # True if the newer batch has several snapshots
        for snapshot in self._chain(table, {}):
            if snapshot.ledger is not None and snapshot.ledger.query == query:
                if newer is not None:
                    yield _step(newer, snapshot.ledger.heads, several=several)
                newer, several = snapshot, False
                if snapshot.renamed_from is not None:
                    yield _renamed(snapshot)
                    newer, query = None, snapshot.renamed_from
            elif snapshot.batch_of == query:
                several = True
        if newer is not None and newer.ledger is not None:
            yield _step(newer, {} if newer.ledger.number == 1 else None, several=several)

    def read(
        self, table: Snapshots, snapshot_id: int, *, child: Snapshot | None = None
    ) -> Snapshot | None:
        """Read one snapshot; return None if it has expired.

        `child` is a snapshot that was made from this one. With `child`, the method also reads the
        table's metadata from the time of `child`, which may still have a snapshot that has expired
        since then. Raises SinkError.
        """
        if snapshot_id in self._snapshots_before:
            self._snapshots[snapshot_id] = self._snapshots_before[snapshot_id]
        if snapshot_id not in self._snapshots:
            text = table.snapshot(snapshot_id)
            if text is None and child is not None:
                text = table.expired(snapshot_id, child=child.id, committed=child.committed)
            if text is None:
                return None
            with self._readable():
                self._snapshots[snapshot_id] = parse_snapshot(text)
        return self._snapshots[snapshot_id]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            raise error.as_kind(SinkError, label=self._label) from error

    def _chain(self, table: Snapshots, heads: Mapping[str, Snapshot]) -> Iterator[Snapshot]:
        """Yield the snapshots from main's head back, until one is missing.

        Also yield expired snapshots that may have one of `heads` as an ancestor.
        """
        at, child = table.main, None
        while at is not None and (snapshot := self.read(table, at, child=child)) is not None:
            yield snapshot
            at, child = snapshot.parent, snapshot if _may_be_behind(heads, snapshot) else None

    def _of(self, table: Snapshots, query: str) -> dict[str, Snapshot]:
        """Return the heads of the query's branches that have a ledger of the query."""
        return {
            name: head
            for name, at in table.branches.items()
            if is_branch_of(query, name)
            and (head := self.read(table, at)) is not None
            and head.ledger is not None
            and head.ledger.query == query
        }

    def _once_main(
        self, table: Snapshots, ledger: LedgerText, heads: Mapping[str, Snapshot]
    ) -> Mapping[str, Snapshot]:
        """Return the branches of the query to which main may once have been moved.

        A dead driver may have left a branch with its next, unpublished batch. The ledger's own
        branch makes such a branch recognisable, but another program may have dropped the ledger's
        branch.
        """
        return {
            name: head
            for name, head in heads.items()
            if head.ledger is None
            or head.ledger.number <= ledger.number
            or table.was_main(head.id, committed=head.committed) is not False
        }

    def _behind(
        self,
        table: Snapshots,
        query: str,
        heads: Mapping[str, Snapshot],
        oldest: Snapshot,
        *,
        accept_expired: bool,
    ) -> Snapshot | None:
        """Return the branch head that precedes main's snapshot `oldest`, whose parent is lost."""
        if not _may_be_behind(heads, oldest):
            return None
        # Format 1 has no sequence numbers: all are 0, and only files can prove that main has the
        # head.
        older = [head for head in heads.values() if head.sequence <= oldest.sequence]
        for head in older:
            if self._has_files_of(head.id):
                return head
        # A later head was never published: its publication would have dropped this branch.
        first = min(older or heads.values(), key=_order)
        if accept_expired:
            return first if older else None
        raise SinkError(
            f"{self._label}: the ledger of {query!r} is in snapshot {first.id}, and nothing "
            "shows if main still has its rows",
            cause=f"snapshot {oldest.parent}, between it and main's head, has expired, and "
            f"{_searched(table.search)}; no file of the batch remains: the files were "
            "compacted, main was rolled back or replaced, or the driver was killed "
            "before it published the batch",
            fix='If the batch\'s rows are in the table, pass on_expired="accept" to use '
            "this ledger; if not, read the lost offsets again with a new checkpoint",
        )

    def _check_whole(self, query: str, since: Sequence[Snapshot]) -> None:
        """Raise SinkError if main ends in the middle of a batch of several snapshots.

        The first snapshot of the batch is empty, and the last has the ledger. A rollback by time
        can end at any snapshot between them: all are ancestors of main.
        """
        for snapshot in since[1:]:
            if snapshot.batch_of == query:
                back = "" if snapshot.parent is None else f" to snapshot {snapshot.parent}"
                raise SinkError(
                    f"{self._label}: main has rows of a batch of {query!r} without their ledger",
                    cause="main was rolled back or fast-forwarded to the middle of the batch "
                    f"that begins with snapshot {snapshot.id}",
                    fix=f"Roll main back{back}, before the batch, or fast-forward it to "
                    "the branch that has the whole batch",
                )

    def _check_picked(
        self,
        table: Snapshots,
        query: str,
        since: Sequence[Snapshot],
        *,
        written: bool,
        accept_expired: bool,
    ) -> None:
        """Raise SinkError if a snapshot in `since` has rows of a batch that the ledger lacks."""
        for snapshot in since:
            if snapshot.source is None:
                continue
            is_of_batch = self._is_of_batch(
                table, query, snapshot, snapshot.source, expired=written
            )
            if is_of_batch or (is_of_batch is None and written and not accept_expired):
                raise self._picked(table, query, snapshot, is_certain=is_of_batch is not None)

    def _is_of_batch(
        self, table: Snapshots, query: str, picked: Snapshot, source: int, *, expired: bool
    ) -> bool | None:
        """Return True if a batch of the query wrote `source`, which was cherry-picked as `picked`.

        Return None if nothing shows who wrote it. With `expired`, also read older metadata of the
        table.
        """
        ancestor = first = self.read(table, source, child=picked if expired else None)
        if first is not None and first.source is not None:
            return self._is_of_batch(table, query, first, first.source, expired=expired)
        while ancestor is not None:
            if ancestor.ledger is not None:
                return ancestor is first and ancestor.ledger.query == query
            if ancestor.batch_of is not None:
                return ancestor.batch_of == query
            if ancestor.parent is None:
                return False
            ancestor = self.read(table, ancestor.parent, child=ancestor if expired else None)
        return None

    def _picked(
        self, table: Snapshots, query: str, snapshot: Snapshot, *, is_certain: bool
    ) -> SinkError:
        back = "" if snapshot.parent is None else f" to snapshot {snapshot.parent}"
        fix = f"Roll main back{back}. To get rows back, fast-forward: it also restores their ledger"
        if is_certain:
            return SinkError(
                f"{self._label}: main has rows of a batch of {query!r} without their ledger",
                cause=f"snapshot {snapshot.id} was cherry-picked from {snapshot.source}, which has "
                "them",
                fix=fix,
            )
        return SinkError(
            f"{self._label}: nothing shows if snapshot {snapshot.id} of main has rows of a batch "
            f"of {query!r} without their ledger",
            cause=f"it was cherry-picked from {snapshot.source}: that snapshot, or one before it, "
            f"has expired, and {_searched(table.search)}",
            fix='If main has no such rows, pass on_expired="accept" to continue. If main '
            f"has such rows: {fix}",
        )


def _searched(search: MetadataSearch) -> str:
    """Return a text that describes how far the search for an expired snapshot went."""
    files = f"{search.files} older metadata files of the table were read"
    if search.back_to is not None:
        at = datetime.fromtimestamp(search.back_to / 1000, timezone.utc)
        files += f", back to {at:%Y-%m-%d %H:%M:%S} UTC"
    if search.bounded:
        return f"{files}, and the search stopped there"
    if search.deleted is not None:
        return f"{search.deleted.rpartition('/')[2]} of that time was deleted ({files})"
    return f"no older metadata file of the table has it ({files})"


def _step(snapshot: Snapshot, before: Heads | None, *, several: bool) -> LedgerStep:
    return LedgerStep(
        snapshot.heads, before, None if several else snapshot.added, snapshot.committed
    )


def _renamed(snapshot: Snapshot) -> LedgerStep:
    heads = snapshot.heads
    return LedgerStep(
        heads, heads, 0, snapshot.committed, f"renamed from query {snapshot.renamed_from}"
    )


def _may_be_behind(heads: Mapping[str, Snapshot], oldest: Snapshot) -> bool:
    """Return True if an ancestor of `oldest`, a snapshot of main, can have a ledger of the query.

    A branch head that is newer than `oldest` is not an ancestor of `oldest`. But an ancestor of the
    head can have an earlier ledger of the query, unless the head belongs to the query's first
    batch.
    """
    return any(
        head.sequence <= oldest.sequence or (head.ledger is not None and head.ledger.number > 1)
        for head in heads.values()
    )


def _order(head: Snapshot) -> tuple[int, int]:
    """Return the sort key of a head: its sequence number, then the number of its batch."""
    return head.sequence, 0 if head.ledger is None else head.ledger.number


def _taken_out(first: Snapshot | None, heads: Mapping[str, Snapshot]) -> str | None:
    """Return the branch with the last batch if a rollback has removed all batches from main.

    `first` is main's first snapshot; no later snapshot of main has a ledger. The sink stages a
    batch after the first only if main has the previous batch. In format 1, which has no sequence
    numbers, such a rollback looks like a replaced table.
    """
    if first is None or first.parent is not None:
        return None
    behind = {name: head for name, head in heads.items() if head.sequence > first.sequence}
    return _latest(behind, after=1)


def _latest(heads: Mapping[str, Snapshot], *, after: int) -> str | None:
    """Return the branch with the highest batch number above `after`, or None if there is none."""
    later = {
        head.ledger.number: name
        for name, head in heads.items()
        if head.ledger is not None and head.ledger.number > after
    }
    return later[max(later)] if later else None


def _replaced(
    first: Snapshot | None, heads: Mapping[str, Snapshot], *, had_ledger: bool
) -> str | None:
    """Return a branch with batches that main had before its first snapshot `first`, or None.

    CREATE OR REPLACE TABLE creates main again, but keeps the other branches. A branch with a
    query's first batch does not prove on its own that main ever had that batch.
    """
    before = {
        head.ledger.number: name
        for name, head in heads.items()
        if head.ledger is not None
        and (first is None or (first.parent is None and head.sequence < first.sequence))
    }
    return before[min(before)] if before and (had_ledger or max(before) > 1) else None
