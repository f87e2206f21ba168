"""The ledger of a query in main, and the batches on its branches that main does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.model.ledger import Head
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.iceberg.snapshots import Snapshot
from eo_listener.sinks.ledger_text import LedgerText


@dataclass(frozen=True, slots=True)
class Published:
    """The ledger of a query, and the snapshot that has it.

    `rolled_back` is a branch with later batches, which a rollback has taken out of main;
    `replaced` one with batches of a table that was replaced by another one of its name.
    """

    ledger: LedgerText
    snapshot: int | None
    rolled_back: str | None = None
    replaced: str | None = None

    @property
    def heads(self) -> Mapping[TopicPartition, Head]:
        """All heads of the query."""
        return self.ledger.heads

    @classmethod
    def at(cls, snapshot: int, ledger: LedgerText, heads: Mapping[str, Snapshot]) -> Published:
        """The ledger in a snapshot of main; `heads` are those of the query's branches."""
        if any(head.id == snapshot for head in heads.values()):
            return cls(ledger, snapshot)  # whatever else there is was never published
        return cls(ledger, snapshot, _latest(heads, after=ledger.number))

    @classmethod
    def nothing(
        cls, query: str, first: Snapshot | None, heads: Mapping[str, Snapshot], *, known: bool
    ) -> Published:
        """A main without a ledger of the query; `first` is the first snapshot that is known of it.

        `known`: it is certain that main has had one.
        """
        return cls(
            ledger=LedgerText(query, 0, {}),
            snapshot=None,
            rolled_back=_taken_out(first, heads),
            replaced=_replaced(first, heads, known=known),
        )


def _taken_out(first: Snapshot | None, heads: Mapping[str, Snapshot]) -> str | None:
    """The branch with the last batch, if a rollback to before the first batch has removed all.

    `first` is main's first snapshot, and there is no ledger since. A batch after the first is
    staged only where main has the one before. Format 1 has no sequence numbers to tell it from a
    table that was replaced.
    """
    if first is None or first.parent is not None:
        return None
    behind = {name: head for name, head in heads.items() if head.sequence > first.sequence}
    return _latest(behind, after=1)


def _latest(heads: Mapping[str, Snapshot], *, after: int) -> str | None:
    """The branch with the last batch of those after number `after` of their ledger."""
    later = {
        head.ledger.number: name
        for name, head in heads.items()
        if head.ledger is not None and head.ledger.number > after
    }
    return later[max(later)] if later else None


def _replaced(first: Snapshot | None, heads: Mapping[str, Snapshot], *, known: bool) -> str | None:
    """A branch with batches that main had, and that `first`, its first snapshot, does not follow.

    CREATE OR REPLACE TABLE makes main again, and leaves branches. Of a first batch it is not known
    by itself whether it was ever in main.
    """
    before = {
        head.ledger.number: name
        for name, head in heads.items()
        if head.ledger is not None
        and (first is None or (first.parent is None and head.sequence < first.sequence))
    }
    return before[min(before)] if before and (known or max(before) > 1) else None
