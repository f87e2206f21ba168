"""Plans the repairs of a ledger: giving it another name, or accepting a gap. No I/O.

A repair writes only if the heads are still the same as when they were read: the store compares
them in its transaction, as it does for a batch.
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
from eo_listener.model.ledger import Entry, Head, LedgerKey, Move, StoredLedger
from eo_listener.model.planned_batch import BATCHES
from eo_listener.model.protocols import LedgerReader
from eo_listener.offsets import OffsetRange, TopicPartition

_TRIES: Final = 5  # of a repair, if others commit to the table between two of its steps

Heads = Mapping[TopicPartition, Head]
Ledgers = Mapping[LedgerKey, Heads]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """A plan to give the `heads` of the ledger `old`, as they were read, to the ledger `new`."""

    old: LedgerKey
    new: LedgerKey
    heads: Heads

    @property
    def verdict(self) -> str:
        """The verdict that records the old key in the history."""
        return f"renamed from {self.old.sink}, query {self.old.query}"


class LedgerRepair(Protocol):
    """Changes the ledgers that `reader` reads. Only one thread may use it.

    Every method may raise SettingsError, and raises SinkError if the store cannot be reached or
    refuses the request.
    """

    @property
    def reader(self) -> LedgerReader: ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings to show before the repair; call `users` first."""

    def key_of(self, table: str) -> str:
        """Return the key that a sink writing to `table` has in its ledger."""

    def users(self, key: LedgerKey) -> tuple[str, ...]:
        """Return the signs in the store that a sink with this key is running.

        A repair calls this method before and after the time in which it watches the ledger for
        changes.
        """

    def check_rename(self, rename: Rename) -> None:
        """Raise SettingsError if `rename` gives an existing table's ledger to another table."""

    def rename(self, rename: Rename) -> None:
        """Give a ledger its new name, in one transaction.

        Raises InUseError if a head has changed since it was read, and OutcomeUnknownError.
        """

    def accept(self, sink: str, entry: Entry) -> None:
        """Move a head past an accepted gap, in one transaction. Raises the errors of `rename`."""

    def close(self) -> None:
        """Close the connection."""


def choose_key(ledgers: Ledgers, label: str, sink: str | None, query: str | None) -> LedgerKey:
    """Return the key of the only ledger of `sink` and `query`; None matches any name.

    Raises SettingsError if no ledger matches, or several do; the error names the candidates.
    """
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
        f"{label} has {len(matching) or 'no'} ledgers with that name",
        cause=f"it has {existing}" if ledgers else "no batch with a ledger was written yet",
        fix="Name a ledger with --sink and --query"
        if ledgers
        else "Check that this is the right store",
    )


def plan_rename(ledgers: Ledgers, old: LedgerKey, *, sink: str | None, query: str | None) -> Rename:
    """Plan to give the ledger `old` to another sink, query or both. Raises SettingsError."""
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
            'on_first="accept", it is complete from that batch on, and the old one ends there',
        )
    return Rename(old=old, new=new, heads=ledgers[old])


def refuse_other_table(rename: Rename, has_table: Callable[[str], bool]) -> None:
    """Raise SettingsError if `rename` would give an existing table's ledger to another table."""
    if rename.new.sink != rename.old.sink and has_table(rename.old.sink):
        raise SettingsError(
            f"the table {rename.old.sink} still exists, so its ledger stays with it",
            cause="a ledger describes its own table; only a renamed table takes its ledger along",
            fix=f"If the rows were moved, rename the table first: ALTER TABLE {rename.old.sink} "
            "RENAME TO ... . A new table begins with a ledger of its own",
        )


def refuse_table_of_its_own(label: str, key: str, table: str) -> None:
    """Raise SettingsError if a ledger inside a table would get the key of a different table."""
    if table != key:
        raise SettingsError(
            f"the ledger of {label} is in the table and cannot belong to {table}",
            cause="a renamed table has taken its ledger along, and another table has its own",
            fix="Use the table's current name; only the query can be renamed: --to-query",
        )


def plan_acceptance(
    heads: Heads, key: LedgerKey, tp: TopicPartition, gap: OffsetRange, *, run_id: str
) -> Entry:
    """Plan to accept that the offsets of `gap` are missing in the sink. Raises SettingsError.

    The head keeps its batch and query, so the sink still recognises a replay of that batch.
    """
    head = heads.get(tp)
    if tp == BATCHES:
        raise SettingsError(
            "a source other than Kafka is counted in batches: a gap in it cannot be named",
            fix='Accept the gap in the query: exactly_once(..., on_gap="accept")',
        )
    if head is None:
        raise SettingsError(
            f"the ledger of query {key.query!r} of {key.sink} has no head of {tp}",
            cause=f"it has {few(sorted(heads))}",
            fix="Name one of these partitions, as the query's error does",
        )
    if gap.start != head.range.until or gap.until <= gap.start:
        raise SettingsError(
            f"{gap} is not the gap that follows the offsets of {tp} in {key.sink}: the next "
            f"offset is {head.range.until}",
            cause="the ledger has moved since then, or the numbers are wrong",
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
    """Raise InUseError if a batch of `ledger` is unfinished, or its table was rolled back.

    In these cases, the heads alone do not tell which rows the table has.
    """
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
            f"a rollback of {label} removed later batches of query {ledger.key.query!r}: "
            f"{ledger.rollback.cause}",
            cause="a repair would make it impossible to undo the rollback",
            fix=ledger.rollback.fix or "Let the query write its next batch first",
        )


def refuse_users(label: str, users: tuple[str, ...]) -> None:
    """Raise InUseError if `users` lists signs of running sinks."""
    if users:
        raise running(f"{label} is in use: {few(users)}")


def running(problem: str) -> InUseError:
    """Return the error for a ledger whose query is running."""
    return InUseError(problem, cause="the query is running", fix="Stop the query first")


def refuse_changed(label: str, rename: Rename, *, old: Heads, new: Heads) -> None:
    """Raise InUseError if the heads of the old name have changed, or the new name now has heads."""
    refuse_moved(label, rename.heads, old)
    if new:
        raise InUseError(
            f"{label} now has a ledger with the new name",
            cause=f"query {rename.new.query!r} has since written to {rename.new.sink}",
            fix="Stop the query, and compare both with eo-listener ledger show",
        )


def refuse_moved(label: str, before: Heads, after: Heads) -> None:
    """Raise InUseError if the heads `after` differ from the heads `before`."""
    moved = [tp for tp in sorted(before.keys() | after.keys()) if before.get(tp) != after.get(tp)]
    if moved:
        raise running(f"the ledger in {label} has since moved: {few(moved)}")


def unknown_repair(label: str, reason: str, cause: str | None) -> OutcomeUnknownError:
    """Return the error for a repair whose commit may or may not have happened."""
    return OutcomeUnknownError(
        f"{label}: {reason}, so the ledger may or may not have changed",
        cause=cause,
        fix="Run eo-listener ledger show to see the ledger, then run the command again",
    )


def commit_to_table(
    label: str, commit: Callable[[], object], *, service: str, other_writers: str | None = None
) -> None:
    """Commit a repair of the ledger in a table; try again if other commits came first.

    `service` is the name of the service that answers a commit. `other_writers` names the writers
    that may come first; if it is None, the text of the store's error is the cause that InUseError
    names. Raises InUseError, OutcomeUnknownError, and any other error of `commit`.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            commit()
        except ForeignWriterError as error:
            raise running(f"the ledger in {label} has since moved: {error.problem}") from error
        except OutcomeUnknownError as error:
            reason = f"the {service} did not answer the commit of the repair ({error.problem})"
            raise unknown_repair(label, reason, error.cause) from error
        except RetriableSinkError as error:
            if not tries_left:
                raise InUseError(
                    f"{label}: other commits came first each time; nothing was changed",
                    cause=other_writers or str(error),
                    fix="Run the command again when the other writers have finished",
                ) from error
        else:
            return
