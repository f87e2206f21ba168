"""The ledger in the snapshots of a table: which of them counts. Pure.

A batch's rows and its ledger are published together, as one snapshot of the branch main. So the
ledger of a query is that of the newest snapshot, from main's head back by parents, that has one.

Its branch keeps that snapshot when others expire. Where an expired snapshot between it and main's
head breaks the chain, three things can have happened to the head of such a branch: it was
published; it was published and taken back by a rollback; it was never published. Sequence numbers
grow along a chain, so what is newer than the last snapshot that is known of main's cannot be behind
it. Of the rest, files of it in main prove that it was published; without any nobody can tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from eo_listener.model.errors import FormatError, SinkError
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.iceberg.names import is_branch_of, is_branch_of_any
from eo_listener.sinks.ledger_text import LedgerText

PROPERTY: Final = "eo-ledger"
"""The key in a snapshot's summary; in lower case, as Spark makes each option of a writer."""


class Snapshot(NamedTuple):
    """What counts of a snapshot; `added` is how many rows it has added."""

    id: int
    parent: int | None
    sequence: int
    ledger: LedgerText | None
    added: int


class Snapshots(Protocol):
    """A table's snapshots at one moment."""

    main: int | None

    @property
    def branches(self) -> Mapping[str, int]: ...

    def snapshot(self, snapshot_id: int) -> str | None:
        """A snapshot as Iceberg writes it in JSON, None where it has expired."""


@dataclass(frozen=True, slots=True)
class Published:
    """The ledger of a query, and the snapshot that has it.

    `rolled_back` is a branch with later batches, which a rollback has taken out of main.
    """

    ledger: LedgerText
    snapshot: int | None
    rolled_back: str | None = None

    @property
    def heads(self) -> Mapping[TopicPartition, Head]:
        """All heads of the query."""
        return self.ledger.heads


def parse_snapshot(text: str) -> Snapshot:
    """Read a snapshot. Raises FormatError for a ledger of another format."""
    given = json.loads(text)
    summary = given.get("summary", {})
    ledger = summary.get(PROPERTY)
    return Snapshot(
        id=given["snapshot-id"],
        parent=given.get("parent-snapshot-id"),
        sequence=given.get("sequence-number", 0),
        ledger=None if ledger is None else LedgerText.decode(ledger),
        added=int(summary.get("added-records", 0)),
    )


class PublishedLedgers:
    """Finds ledgers; snapshots never change, so those that the search before has read are kept.

    `has_files_of(snapshot)` says whether main still has files that this snapshot has added.
    """

    def __init__(self, label: str, has_files_of: Callable[[int], bool]) -> None:
        self._label = label
        self._has_files_of = has_files_of
        self._known: dict[int, Snapshot] = {}
        self._before: dict[int, Snapshot] = {}

    def published(self, table: Snapshots, query: str, *, accept_expired: bool = False) -> Published:
        """Return the ledger of `query`; one without heads where it has none.

        Raises SinkError where that cannot be told, or where it has another format.
        """
        self._before, self._known = self._known, {}
        oldest: Snapshot | None = None
        for oldest in self._chain(table):
            if oldest.ledger is not None and oldest.ledger.query == query:
                return self._found(table, oldest.ledger, oldest.id)
        if oldest is not None and oldest.parent is not None:
            anchor = self._behind(table, query, oldest, accept_expired=accept_expired)
            if anchor is not None and anchor.ledger is not None:
                return self._found(table, anchor.ledger, anchor.id)
        return Published(LedgerText(query, 0, {}), None)

    def moved_by(
        self, table: Snapshots, key: str, query_id: str
    ) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Return all heads that a query id has moved last, of any query of the table.

        `key` is the sink's. Where nothing says whether a ledger still counts, it does. Raises
        SinkError.
        """
        found = {
            query: self.published(table, query, accept_expired=True).heads
            for query in self.queries(table)
        }
        moved = {
            LedgerKey(key, query): {
                tp: head for tp, head in heads.items() if head.query_id == query_id
            }
            for query, heads in found.items()
        }
        return {owner: heads for owner, heads in moved.items() if heads}

    def queries(self, table: Snapshots) -> set[str]:
        """The names of all queries that have a ledger in the table."""
        heads = (
            self.read(table, at) for name, at in table.branches.items() if is_branch_of_any(name)
        )
        both = (*self._chain(table), *heads)
        return {one.ledger.query for one in both if one is not None and one.ledger is not None}

    def read(self, table: Snapshots, snapshot_id: int) -> Snapshot | None:
        """Read one snapshot, None where it has expired. Raises SinkError."""
        if snapshot_id in self._before:
            self._known[snapshot_id] = self._before[snapshot_id]
        if snapshot_id not in self._known:
            text = table.snapshot(snapshot_id)
            if text is None:
                return None
            try:
                self._known[snapshot_id] = parse_snapshot(text)
            except FormatError as error:
                raise SinkError(
                    f"{self._label}: {error.problem}", cause=error.cause, fix=error.fix
                ) from error
        return self._known[snapshot_id]

    def _chain(self, table: Snapshots) -> Iterator[Snapshot]:
        """From main's head back, as far as there are snapshots."""
        at = table.main
        while at is not None and (found := self.read(table, at)) is not None:
            yield found
            at = found.parent

    def _of(self, table: Snapshots, query: str) -> dict[str, Snapshot]:
        """The heads of the query's branches that have a ledger of it."""
        heads = {
            name: self.read(table, at)
            for name, at in table.branches.items()
            if is_branch_of(query, name)
        }
        return {
            name: head
            for name, head in heads.items()
            if head is not None and head.ledger is not None and head.ledger.query == query
        }

    def _found(self, table: Snapshots, ledger: LedgerText, at: int) -> Published:
        heads = self._of(table, ledger.query)
        if any(head.id == at for head in heads.values()):
            return Published(ledger, at)  # whatever else there is was never published
        later = {
            head.ledger.number: name
            for name, head in heads.items()
            if head.ledger is not None and head.ledger.number > ledger.number
        }
        return Published(ledger, at, later[max(later)] if later else None)

    def _behind(
        self, table: Snapshots, query: str, oldest: Snapshot, *, accept_expired: bool
    ) -> Snapshot | None:
        """The head of a branch that is part of main, behind a snapshot that has expired."""
        heads = self._of(table, query).values()
        older = [head for head in heads if head.sequence < oldest.sequence]
        if not older:
            return None
        for head in older:
            if self._has_files_of(head.id):
                return head
        # A later one was never published: that would have dropped this one.
        first = min(older, key=lambda head: head.sequence)
        if accept_expired:
            return first
        raise SinkError(
            f"{self._label}: the ledger of {query!r} is in snapshot {first.id}, and nothing "
            "says whether main still has the rows of it",
            cause="a snapshot between it and main's head has expired, and no file of it is left: "
            "they were compacted, or main was rolled back behind it",
            fix='If main was not rolled back, on_expired="accept" takes this ledger; if it was, '
            "read the lost offsets again with a new checkpoint",
        )
