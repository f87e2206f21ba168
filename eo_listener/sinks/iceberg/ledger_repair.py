"""Repairs a ledger in an Iceberg table: publishes it as a sink does, in snapshots without rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
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
    from eo_listener.sinks.iceberg.ledger import Published
    from eo_listener.spark.session.local_spark import LocalSpark


class IcebergLedgerRepair:
    """The `LedgerRepair` of an Iceberg table. Raises SettingsError for an invalid name."""

    #: The effect on a batch in progress.
    remarks: Final = (
        (
            "the repair drops the branches of the query's batches: a batch that a driver is "
            "writing to such a branch is not published"
        ),
    )

    def __init__(self, name: str, spark: LocalSpark) -> None:
        self._name = TableName.parse(name)
        self.reader = IcebergLedgerReader(name, spark.session)
        self._branches: dict[LedgerKey, frozenset[str]] = {}

    def key_of(self, table: str) -> str:
        """Return the table's key. Raises SettingsError if `table` names a different table."""
        refuse_table_of_its_own(self.reader.label, self._name.key, TableName.parse(table).key)
        return self._name.key

    def users(self, key: LedgerKey) -> tuple[str, ...]:
        """Return the query's branches that were created or dropped since the first call."""
        with self.reader.explained():
            now = frozenset(
                name
                for name in self.reader.require_table().branches
                if is_branch_of(key.query, name)
            )
        changed = self._branches.setdefault(key, now) ^ now
        return tuple(
            f"branch {name} of a batch, created or dropped in the meantime" for name in changed
        )

    def check_rename(self, rename: Rename) -> None:
        """Check nothing: the ledger stays in its table."""

    def rename(self, rename: Rename) -> None:
        """Give a ledger to another query, in one commit of the table."""
        entry = Entry(
            query=rename.new.query, query_id="", run_id=str(uuid4()), batch_id=0, moves={}
        )
        self._publish(partial(_Renaming, rename=rename), entry, rename.old.query)

    def accept(self, sink: str, entry: Entry) -> None:  # noqa: ARG002  # the table has one sink
        """Move a head to the end of an accepted gap, in one commit of the table."""
        self._publish(Publication, entry, entry.query)

    def close(self) -> None:
        """Release the table."""
        self.reader.close()

    def _letters(self, table: IcebergTable, query: str) -> str | None:
        """Return the place of the last batch's dead letters, which the next batch publishes."""
        ledgers = self.reader.published
        return ledgers.letters_of(table, ledgers.published(table, query))

    def _publish(self, kind: Callable[..., Publication], entry: Entry, query: str) -> None:
        """Publish `entry` without rows; the last batch of `query` may have dead letters."""
        label = self.reader.label

        def commit() -> None:
            with self.reader.explained():
                table = self.reader.require_table()
                publication = kind(
                    label=label,
                    table=table,
                    ledgers=self.reader.published,
                    rows=_NoRows(),
                    entry=entry,
                    accept_expired=False,
                    letters=self._letters(table, query),
                )
            publication.write()

        commit_to_table(
            label,
            commit,
            service="catalog",
            other_writers="other programs write to the table, or compact it, at the same time",
        )


class _NoRows:
    """Writes no rows, for a repair."""

    appends = False

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:  # noqa: ARG002  # the protocol's
        """Return 0: a repair has no rows to write."""
        return 0

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # the protocol's
        """Return False: no rows of other writers change what a repair writes."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renaming(Publication):
    """Publishes two snapshots in one commit: the old name without heads, the new name with them."""

    rename: Rename

    def _checked_ledger(self) -> Published:
        old, new = map(self._published, (self.rename.old.query, self.rename.new.query))
        refuse_changed(self.label, self.rename, old=old.heads, new=new.heads)
        return new

    def _first_summary(self) -> Mapping[str, str] | None:
        old = self._published(self.rename.old.query).ledger
        emptied = LedgerText(old.query, old.number + 1, {})
        return {PROPERTY: emptied.encode(), BATCH_OF: self.rename.new.query}

    def _summary(self, staged: Staged) -> dict[str, str]:
        summary = super(_Renaming, self)._summary(staged)  # with slots, `super()` fails
        return {**summary, RENAMED_FROM: self.rename.old.query}

    def _ledger(self, published: Published) -> LedgerText:
        return LedgerText(self.rename.new.query, published.ledger.number + 1, self.rename.heads)

    def _is_in(self, heads: Mapping[TopicPartition, Head]) -> bool:
        return dict(heads) == dict(self.rename.heads)

    def _gives_up(self, branch: str) -> bool:
        queries = (self.rename.old.query, self.rename.new.query)
        return any(is_branch_of(query, branch) for query in queries)

    def _published(self, query: str) -> Published:
        return self.ledgers.published(self.table, query, accept_expired=self.accept_expired)
