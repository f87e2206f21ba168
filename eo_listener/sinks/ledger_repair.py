"""The changes of a repair to a ledger: a rename carried over, or one gap accepted. Pure.

Only where the heads are still what was read is anything written: the store compares them in its
transaction, as it does for a batch.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from eo_listener.errors import (
    ForeignWriterError,
    InUseError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    few,
)
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Entry, Head, LedgerKey, Move, StoredLedger
from eo_listener.model.protocols import LedgerReader
from eo_listener.offsets import OffsetRange, TopicPartition

_TRIES: Final = 5  # of a repair, if others commit to the table between two of its steps

Heads = Mapping[TopicPartition, Head]
Ledgers = Mapping[LedgerKey, Heads]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """The heads of `old`, as they were read, are to be those of `new`."""

    old: LedgerKey
    new: LedgerKey
    heads: Heads

    @property
    def verdict(self) -> str:
        """The history's record of the earlier key."""
        return f"renamed from {self.old.sink}, query {self.old.query}"


class LedgerRepair(Protocol):
    """Changes the ledger of a store, which `reader` reads. For one thread.

    Every method raises SinkError where the store cannot be asked or refuses, and SettingsError.
    """

    @property
    def reader(self) -> LedgerReader: ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings to show before the repair, after `users` was called."""
        ...

    def key_of(self, table: str) -> str:
        """The key of a sink that writes to this table, as its ledger has it."""
        ...

    def users(self, key: LedgerKey) -> tuple[str, ...]:
        """Name what shows that a sink of this key is at work, as far as the store does.

        Asked before and after the seconds in which the ledger must hold still.
        """
        ...

    def check_rename(self, rename: Rename) -> None:
        """Raise SettingsError where rows would be under the ledger of another table."""
        ...

    def rename(self, rename: Rename) -> None:
        """Carry a ledger over, in one transaction.

        Raises InUseError if a head differs from what was read, and OutcomeUnknownError.
        """
        ...

    def accept(self, sink: str, entry: Entry) -> None:
        """Move a head over a gap, in one transaction. Raises as `rename` does."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def choose_key(ledgers: Ledgers, label: str, sink: str | None, query: str | None) -> LedgerKey:
    """The one ledger that is meant. Raises SettingsError, which names those that there are."""
    matching = [
        key
        for key in sorted(ledgers)
        if (sink is None or key.sink == sink) and (query is None or key.query == query)
    ]
    if len(matching) == 1:
        return matching[0]
    words = (["--sink", key.sink, "--query", key.query] for key in matching or sorted(ledgers))
    existing = few(map(shlex.join, words))
    raise SettingsError(
        f"{label} has {len(matching) or 'no'} ledgers of that name",
        cause=f"it has {existing}" if ledgers else "no batch with a ledger was written yet",
        fix="Name a ledger with --sink and --query"
        if ledgers
        else "Check that this is the right store",
    )


def plan_rename(ledgers: Ledgers, old: LedgerKey, *, sink: str | None, query: str | None) -> Rename:
    """Plan to carry the ledger `old` over to another sink, query or both. Raises SettingsError."""
    new = LedgerKey(sink or old.sink, query or old.query)
    if new == old:
        raise SettingsError(
            "the ledger already has that name", fix="Give another name: --to-sink or --to-query"
        )
    if not new.sink.strip() or not new.query.strip():
        raise SettingsError("the new name is empty", fix="Give a name: --to-sink or --to-query")
    if ledgers.get(new):
        raise SettingsError(
            f"a ledger of query {new.query!r} of {new.sink} already exists",
            cause="a query has since written under the new name, so two ledgers would become one",
            fix="Compare both with eo-listener ledger show. If the new ledger began with "
            'on_first="accept", it is complete from there on, and the old one is finished',
        )
    return Rename(old=old, new=new, heads=ledgers[old])


def refuse_other_table(rename: Rename, has_table: Callable[[str], bool]) -> None:
    """Raise SettingsError where rows would be under the ledger of another table."""
    if rename.new.sink != rename.old.sink and has_table(rename.old.sink):
        raise SettingsError(
            f"the table {rename.old.sink} still exists, so its ledger stays with it",
            cause="a ledger describes its own table; only a renamed table takes its ledger along",
            fix=f"If the rows were moved, rename the table first: ALTER TABLE {rename.old.sink} "
            "RENAME TO ... . A new table begins with a ledger of its own",
        )


def refuse_table_of_its_own(label: str, key: str, table: str) -> None:
    """Raise SettingsError where the ledger in a table is to be that of another one."""
    if table != key:
        raise SettingsError(
            f"the ledger of {label} is in the table and cannot belong to {table}",
            cause="a renamed table has taken its ledger along, and another table has its own",
            fix="Use the table's present name; only its query can be renamed: --to-query",
        )


def plan_acceptance(
    heads: Heads, key: LedgerKey, tp: TopicPartition, gap: OffsetRange, *, run_id: str
) -> Entry:
    """Plan to accept that the offsets of `gap` are not in the sink. Raises SettingsError.

    The head keeps the batch and query that it has: so a replay of that batch is still known.
    """
    head = heads.get(tp)
    if tp == BATCHES:
        raise SettingsError(
            "sources other than Kafka are counted in batches, of which no gap can be named",
            fix='Accept it in the query: exactly_once(..., on_gap="accept")',
        )
    if head is None:
        raise SettingsError(
            f"the ledger of query {key.query!r} of {key.sink} has no head of {tp}",
            cause=f"it has {few(sorted(heads))}",
            fix="Name a partition that it has, as the query's error does",
        )
    if gap.start != head.range.until or gap.until <= gap.start:
        raise SettingsError(
            f"{gap} is not the gap after the offsets that {key.sink} has of {tp}: its next "
            f"offset is {head.range.until}",
            cause="the ledger has moved since, or the numbers are wrong",
            fix=f"Give the gap as the query's error names it; it begins at {head.range.until}",
        )
    move = Move(
        source=0,
        range=OffsetRange(gap.until, gap.until),
        topic_id=head.topic_id,
        verdict=None,
        expected=head,
        gap=gap,
    )
    return Entry(
        query=key.query,
        query_id=head.query_id,
        run_id=run_id,
        batch_id=head.batch_id,
        moves={tp: move},
    )


def refuse_unsettled(label: str, ledger: StoredLedger) -> None:
    """Raise InUseError if a ledger's heads alone do not describe its table."""
    if ledger.unfinished_batch is not None:
        raise InUseError(
            f"batch {ledger.unfinished_batch} of query {ledger.key.query!r} was begun in {label} "
            "and is not finished",
            cause="the query is running, or its driver died in that batch; some of its rows "
            "may exist",
            fix="Start the query as before until that batch is applied, then stop it",
        )
    if ledger.rollback is not None:
        raise InUseError(
            f"{label} was rolled back to before later batches of query {ledger.key.query!r}: "
            f"{ledger.rollback.cause}",
            cause="a repair would make it impossible to undo that",
            fix=ledger.rollback.fix or "Let the query write its next batch first",
        )


def refuse_users(label: str, users: tuple[str, ...]) -> None:
    """Raise InUseError where sinks are connected."""
    if users:
        raise running(f"{label} is in use: {few(users)}")


def running(problem: str) -> InUseError:
    """Return the error for a ledger whose query is running."""
    return InUseError(problem, cause="the query is running", fix="Stop the query first")


def refuse_changed(label: str, rename: Rename, *, old: Heads, new: Heads) -> None:
    """Raise InUseError where the heads of one of the names are not what they were."""
    refuse_moved(label, rename.heads, old)
    if new:
        raise InUseError(
            f"{label} now has a ledger with the new name",
            cause=f"query {rename.new.query!r} has since written to {rename.new.sink}",
            fix="Stop the query, and compare both with eo-listener ledger show",
        )


def refuse_moved(label: str, before: Heads, after: Heads) -> None:
    """Raise InUseError where heads are not what they were."""
    moved = [tp for tp in sorted(before.keys() | after.keys()) if before.get(tp) != after.get(tp)]
    if moved:
        raise running(f"the ledger in {label} has since moved: {few(moved)}")


def commit_to_table(
    label: str, commit: Callable[[], object], *, service: str, other_writers: str | None = None
) -> None:
    """Have a repair of the ledger in a table committed; try again if other commits came first.

    `service` answers to a commit; `other_writers` names who comes first, None: as the error does.
    Raises InUseError and OutcomeUnknownError, and what else `commit` raises.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            commit()
        except ForeignWriterError as error:
            raise running(f"the ledger in {label} has since moved: {error.problem}") from error
        except OutcomeUnknownError as error:
            raise OutcomeUnknownError(
                f"{label}: the {service} did not answer the commit of the repair, so the ledger "
                f"may or may not have changed ({error.problem})",
                cause=error.cause,
                fix="Run eo-listener ledger show to see the ledger, then run the command again",
            ) from error
        except RetriableSinkError as error:
            if not tries_left:
                raise InUseError(
                    f"{label}: other commits came first each time; nothing was changed",
                    cause=other_writers or str(error),
                    fix="Run the command again when they are done",
                ) from error
        else:
            return
