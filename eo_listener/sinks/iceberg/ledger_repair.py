"""Repairs a ledger in an Iceberg table: published as a batch is, by snapshots without rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from eo_listener.model.ledger import Entry
from eo_listener.sinks.iceberg.ledger_reader import IcebergLedgerReader
from eo_listener.sinks.iceberg.names import TableName, is_branch_of
from eo_listener.sinks.iceberg.publication import Publication, Staged
from eo_listener.sinks.iceberg.snapshots import BATCH_OF, PROPERTY, RENAMED_FROM
from eo_listener.sinks.ledger_repair import (
    Rename,
    commit_to_table,
    refuse_changed,
    refuse_table_of_its_own,
)
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_table import IcebergTable

if TYPE_CHECKING:
    from eo_listener.model.ledger import Head, LedgerKey
    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.iceberg.published import Published
    from eo_listener.spark.session.local_spark import LocalSpark


class IcebergLedgerRepair:
    """The `LedgerRepair` of a table. Raises SettingsError for a name that cannot be."""

    def __init__(self, name: str, spark: LocalSpark) -> None:
        self._name = TableName.parse(name)
        self._reader = IcebergLedgerReader(name, spark)
        self._branches: dict[LedgerKey, frozenset[str]] = {}

    @property
    def reader(self) -> IcebergLedgerReader:
        """The reader of the same ledger."""
        return self._reader

    @property
    def remarks(self) -> tuple[str, ...]:
        """The effect on a batch in progress."""
        said = (
            "the branches of the query's batches are dropped: a batch that a driver is writing "
            "to one of them is not published"
        )
        return (said,)

    def key_of(self, table: str) -> str:
        """Its own, whatever the table is called."""
        refuse_table_of_its_own(self._reader.label, self._name.key, TableName.parse(table).key)
        return self._name.key

    def users(self, key: LedgerKey) -> tuple[str, ...]:
        """Name the branches that the query has made or given up since this was asked before."""
        with self._reader.explained():
            now = frozenset(
                name for name in self._reader.found().branches if is_branch_of(key.query, name)
            )
        changed = self._branches.setdefault(key, now) ^ now
        return tuple(
            f"branch {name} of a batch, created or dropped in the meantime" for name in changed
        )

    def check_rename(self, rename: Rename) -> None:
        """Nothing: the ledger is in the table."""

    def rename(self, rename: Rename) -> None:
        """Carry a ledger over to another query, in one commit of the table."""

        def publication(table: IcebergTable) -> Publication:
            entry = Entry(
                query=rename.new.query, query_id="", run_id=str(uuid4()), batch_id=0, moves={}
            )
            return _Renaming(
                label=self._reader.label,
                table=table,
                ledgers=self._reader.published,
                rows=_NoRows(),
                entry=entry,
                accept_expired=False,
                letters=self._letters(table, rename.old.query),
                rename=rename,
            )

        self._publish(publication)

    def accept(self, sink: str, entry: Entry) -> None:  # noqa: ARG002  # the table has one sink
        """Move a head over a gap, in one commit of the table."""

        def publication(table: IcebergTable) -> Publication:
            return Publication(
                label=self._reader.label,
                table=table,
                ledgers=self._reader.published,
                rows=_NoRows(),
                entry=entry,
                accept_expired=False,
                letters=self._letters(table, entry.query),
            )

        self._publish(publication)

    def close(self) -> None:
        """Release what was read."""
        self._reader.close()

    def _letters(self, table: IcebergTable, query: str) -> str | None:
        """The place of the last batch's dead letters: the next batch publishes them."""
        ledgers = self._reader.published
        at = ledgers.published(table, query).snapshot
        found = None if at is None else ledgers.read(table, at)
        return None if found is None else found.letters

    def _publish(self, publication: Callable[[IcebergTable], Publication]) -> None:
        def commit() -> None:
            with self._reader.explained():
                prepared = publication(self._reader.found())
            prepared.write()

        commit_to_table(
            self._reader.label,
            commit,
            service="catalog",
            other_writers="other programs write to the table, or compact it, at the same time",
        )


class _NoRows:
    """The changes of a repair."""

    appends = False

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:  # noqa: ARG002  # the protocol's
        """Nothing."""
        return 0

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # the protocol's
        """No rows of others change what it writes."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renaming(Publication):
    """Two snapshots in one commit: one takes the heads from the old name, one has the new name."""

    rename: Rename

    def _compared(self) -> Published:
        old, new = (self._published(one.query) for one in (self.rename.old, self.rename.new))
        refuse_changed(self.label, self.rename, old=old.heads, new=new.heads)
        return new

    def _first_summary(self) -> Mapping[str, str] | None:
        old = self._published(self.rename.old.query).ledger
        emptied = LedgerText(old.query, old.number + 1, {})
        return {PROPERTY: emptied.encode(), BATCH_OF: self.rename.new.query}

    def _summary(self, staged: Staged) -> dict[str, str]:
        own = {RENAMED_FROM: self.rename.old.query}
        return {**super(_Renaming, self)._summary(staged), **own}  # with slots it needs the class

    def _ledger(self, found: Published) -> LedgerText:
        return LedgerText(self.rename.new.query, found.ledger.number + 1, self.rename.heads)

    def _is_in(self, heads: Mapping[TopicPartition, Head]) -> bool:
        return dict(heads) == dict(self.rename.heads)

    def _is_ours(self, branch: str) -> bool:
        return any(is_branch_of(one.query, branch) for one in (self.rename.old, self.rename.new))

    def _published(self, query: str) -> Published:
        return self.ledgers.published(self.table, query, accept_expired=self.accept_expired)
