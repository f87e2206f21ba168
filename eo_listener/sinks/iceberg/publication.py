"""Writes a batch on its own branch and moves main to the branch, in the right order of steps.

The branch begins at the snapshot of main whose ledger the sink has compared with the batch. One
commit moves main to the branch, and Iceberg refuses the commit if main has moved in the meantime.
So no rows and no ledger of another driver can come between the comparison and the commit, no matter
what the sink writes on the branch and how long that takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from eo_listener.errors import JvmError, OutcomeUnknownError, SinkError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.foreign_writer import refuse_moved
from eo_listener.sinks.iceberg import moves
from eo_listener.sinks.iceberg.errors import (
    branch_damaged,
    branch_dropped,
    computed_in_vain,
    is_conflict,
    is_of_clock,
    is_refusal,
    not_on_branch,
    overtaken,
    refused_alone,
    table_replaced,
    translating,
    unanswered,
)
from eo_listener.sinks.iceberg.ledger import Published, PublishedLedgers
from eo_listener.sinks.iceberg.names import is_branch_of, new_branch
from eo_listener.sinks.iceberg.snapshots import BATCH_OF, LETTERS, PROPERTY, Snapshot
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_table import IcebergTable, MainMovedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.sinks.iceberg.names import TableName

TRIES: Final = 100
"""How often in a row other commits may come first before the sink begins the batch again."""
_COMPUTED: Final = 5
"""How often the sink computes a batch's changes from the same rows before it begins it again."""

_NO_BRANCH: Final = "Cannot use branch (does not exist)"

logger = logging.getLogger("eo_listener")


class _ComputedInVainError(Exception):
    """Other commits, which the text lists, have moved main: the batch's changes may be wrong."""


class Staged(NamedTuple):
    """The branch of a batch, and the ledger after the batch.

    `base` is the snapshot of main from which the branch was made, `root` the branch's first
    snapshot.
    """

    branch: str
    base: int | None
    root: int
    ledger: str


class RowWriter(Protocol):
    """Writes the rows of a batch on a branch, in one attempt.

    If `appends` is True, the writer writes one snapshot, which only adds files and also has the
    ledger. The sink then need not write the batch again if main has moved.
    """

    @property
    def appends(self) -> bool: ...

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        """Write the rows; return their number, or None if the snapshot's summary has the number.

        Raises ThrownError.

        A writer that appends gives its snapshot this `summary`.
        """

    def concerns(self, base: int, main: int) -> bool:
        """Return True if rows appended to main between two snapshots might change the result.

        Raises ThrownError.
        """


@dataclass(frozen=True, slots=True)
class Append:
    """Appends the rows of one batch."""

    name: TableName
    frame: DataFrame
    appends = True

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        """Write the rows on the branch, in a snapshot with this `summary`."""
        writer = self.frame.writeTo(self.name.branch(branch))
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        with java_errors():
            writer.append()
        return None

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # same for all
        """Return False: other rows never change what an append writes."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Writes and publishes the batch of one entry in one table.

    Use a new object for each attempt. `letters` is the place of the batch's dead letters, which is
    published with the ledger. Before `write` writes anything, it calls `settle` with the place of
    the previous batch's dead letters, so that those letters are published first.
    """

    label: str
    table: IcebergTable
    ledgers: PublishedLedgers
    rows: RowWriter
    entry: Entry
    accept_expired: bool
    letters: str | None = None
    settle: Callable[[str], None] | None = None

    def write(self) -> Applied:
        """Write and publish rows and ledger. Raises the errors of `Sink.apply`."""
        began, computed = monotonic(), 0
        while True:
            try:
                return self._try_once()
            except _ComputedInVainError as error:
                computed += 1
                if computed == _COMPUTED:
                    raise computed_in_vain(
                        self.label,
                        self.entry.batch_id,
                        str(error),
                        times=computed,
                        seconds=monotonic() - began,
                    ) from None
                logger.warning(
                    "%s: main moved while batch %d was being written (%s); recomputing the batch "
                    "from the same rows",
                    self.label,
                    self.entry.batch_id,
                    error,
                )

    def _try_once(self) -> Applied:
        staged = self.begin()
        try:
            fault_point("sink.begun")
            written = self.fill(staged)
            fault_point("sink.rows-written")
            fault_point("sink.ledger-moved")
            fault_point("sink.commit-sent")
            added = self._publish(staged)
        except OutcomeUnknownError:
            raise  # the branch may be main's head now, and may hold the ledger
        except Exception:
            self.drop(staged.branch)
            raise
        fault_point("sink.committed")
        with suppress(ThrownError, JvmError):  # even if this fails, the batch is in the table
            self.table.uncache()
        return Applied(rows=added if written is None else written)

    def stage(self) -> Staged:
        """Write rows and ledger on a branch without publishing it. Raises the errors of `write`."""
        staged = self.begin()
        try:
            self.fill(staged)
            with translating(self.label):
                self.table.refresh()
                self._check_staged(staged)
        except Exception:
            self.drop(staged.branch)
            raise
        return staged

    def begin(self) -> Staged:
        """Create the branch at main's snapshot if main's ledger has the heads in the entry.

        Raises the errors of `write`.
        """
        refused: ThrownError | None = None
        with translating(self.label):
            for _ in range(TRIES):
                self.table.refresh()
                base, before = self.table.main, self.table.version
                published = self._checked_ledger()
                branch = new_branch(self.entry.query, self.entry.run_id)
                try:
                    summary = self._first_summary()
                    root = self.table.create_branch(branch, at=base, summary=summary)
                except MainMovedError:
                    continue
                except ThrownError as error:
                    if not is_refusal(error):
                        raise
                    self.table.refresh()
                    refused = self._after_others(error, before)
                    continue
                return Staged(branch, base, root, self._ledger(published).encode())
        raise overtaken(self.label, self.entry.batch_id) from refused

    def fill(self, staged: Staged) -> int | None:
        """Write the rows on the branch; return their number if known. Raises the errors of `write`.

        If the write fails and the branch is gone (probably a newer driver dropped it), the error is
        retriable.
        """
        with translating(self.label):
            try:
                self.table.uncache()
                return self.rows.write(staged.branch, self._summary(staged))
            except (ThrownError, SinkError) as error:
                self.table.refresh()
                # Another thread may have put an older state of the table into the session's cache.
                if staged.branch not in self.table.branches or _NO_BRANCH in str(error):
                    raise branch_dropped(self.label, staged.branch) from error
                raise

    def _checked_ledger(self) -> Published:
        """Return the ledger, which must still have the heads that the entry expects.

        Raises ForeignWriterError if the ledger has other heads, and SinkError if the table was
        replaced.
        """
        entry = self.entry
        had_ledger = any(move.expected is not None for move in entry.moves.values())
        published = self.ledgers.published(
            self.table, entry.query, accept_expired=self.accept_expired, had_ledger=had_ledger
        )
        if published.replaced is not None and had_ledger:
            raise table_replaced(self.label, entry.query, published.replaced)
        refuse_moved(self.label, entry, published.heads)
        if self.settle is not None:
            letters = self.ledgers.letters_of(self.table, published)
            if letters is not None:
                self.settle(letters)
        return published

    def _publish(self, staged: Staged) -> int:
        """Move main to the branch; return how many rows the branch's snapshot has added."""
        refused: ThrownError | None = None
        valid_at = staged.base
        for _ in range(TRIES):
            with translating(self.label):
                self.table.refresh()
                added = self._check_staged(staged)
                self._checked_ledger()
                self._check_valid(staged, valid_at)
                valid_at = self.table.main
            try:
                self._move_main(staged)
            except MainMovedError:
                continue
            except ThrownError as error:
                if not is_refusal(error):
                    raise unanswered(error, self.label) from error
                before = self.table.version
                if not self._is_committed():
                    refused = self._after_others(error, before)
                    continue
            except JvmError as error:
                raise unanswered(error, self.label) from error
            return added
        raise overtaken(self.label, self.entry.batch_id) from refused

    def _after_others(self, error: ThrownError, before: str) -> ThrownError:
        """Return the refusal `error` if others have changed the table, so that a retry may succeed.

        `before` is the version of the table on which the commit was made. Raises SinkError for any
        other refusal.
        """
        alone = not is_conflict(error) and self.table.version == before
        if alone or is_of_clock(error):
            raise refused_alone(error, self.label) from error
        return error

    def _is_committed(self) -> bool:
        """Return True if main has the batch, although its commit was refused.

        If its connection breaks, a JDBC catalog sends a commit again (`JdbcClientPool`). If the
        first request had succeeded, the database then refuses the second. Raises
        OutcomeUnknownError.
        """
        try:
            self.table.refresh()
            published = self.ledgers.published(
                self.table, self.entry.query, accept_expired=self.accept_expired
            )
        except (ThrownError, JvmError, SinkError) as error:
            raise unanswered(error, self.label) from error
        return self._is_in(published.heads)

    def _move_main(self, staged: Staged) -> None:
        """Publish the staged batch on the current main."""
        table, query = self.table, self.entry.query
        drop = [name for name in table.branches if self._gives_up(name) and name != staged.branch]
        summary = self._summary(staged)
        if table.main == staged.base:
            table.publish(
                staged.branch,
                at=staged.base,
                drop=drop,
                summary=None if self.rows.appends else summary,
            )
        elif table.main is not None:
            table.publish_again(
                staged.branch,
                new_branch(query, self.entry.run_id),
                at=table.main,
                drop=drop,
                summary=summary,
                root=self._first_summary(),
            )
        else:
            raise overtaken(self.label, self.entry.batch_id)

    def _check_valid(self, staged: Staged, valid_at: int | None) -> None:
        """Check that Spark would compute the same changes for the batch from the current main.

        The changes are known to be valid at main's snapshot `valid_at`. They stay valid if later
        commits change no rows, or only append rows that do not concern the batch, and keep the
        files that the batch has changed. Raises _ComputedInVainError.
        """
        table = self.table
        if table.main == valid_at or (table.main is not None and self.rows.appends):
            return
        moved = moves.since(partial(self.ledgers.read, table), table.main, valid_at)
        if not self._is_still_valid(staged, moved, valid_at, table.main):
            raise _ComputedInVainError(moves.described(moved))

    def _is_still_valid(
        self,
        staged: Staged,
        moved: tuple[Snapshot, ...] | None,
        valid_at: int | None,
        main: int | None,
    ) -> bool:
        if moved is None or valid_at is None or main is None or not moves.leave_rows(moved):
            return False
        at = self.table.branches[staged.branch]
        head = self.ledgers.read(self.table, at)
        if head is None or staged.root not in (at, head.parent):
            return False  # several statements, each with its own changes
        if not self.table.holds(at, moves.replacing(moved)):
            return False
        return not moves.has_appends(moved) or not self.rows.concerns(valid_at, main)

    # The differences between a batch and a repair of the ledger.

    def _first_summary(self) -> Mapping[str, str] | None:
        """Return the summary of the branch's first, empty snapshot; None for no such snapshot.

        Without this snapshot, the sink could not detect that the branch was dropped and that
        Iceberg created it again from main. A branch that gets one append does not need it.
        """
        return None if self.rows.appends else {BATCH_OF: self.entry.query}

    def _summary(self, staged: Staged) -> dict[str, str]:
        """Return the summary of the snapshot to which `_move_main` moves main."""
        letters = {} if self.letters is None else {LETTERS: self.letters}
        return {PROPERTY: staged.ledger, **letters}

    def _ledger(self, published: Published) -> LedgerText:
        """Return the ledger as it will be after the entry."""
        return published.ledger.after(self.entry)

    def _is_in(self, heads: Mapping[TopicPartition, Head]) -> bool:
        """Return True if `heads` include the entry's new heads."""
        return all(heads.get(tp) == self.entry.head(tp) for tp in self.entry.moves)

    def _gives_up(self, branch: str) -> bool:
        """Return True if the publication of the new branch may drop `branch`."""
        return is_branch_of(self.entry.query, branch)

    def _check_staged(self, staged: Staged) -> int:
        """Check that the branch has all changes of the batch and nothing else.

        Return how many rows the branch's snapshot has added, or 0 if the branch has several
        snapshots.
        """
        at = self.table.branches.get(staged.branch)
        head = None if at is None else self.ledgers.read(self.table, at)
        if at is None or head is None:
            raise branch_dropped(self.label, staged.branch)
        if not self.table.is_readable(at):
            raise branch_damaged(self.label, staged.branch)
        if not self.rows.appends:
            self._check_statements(staged, head)
            return 0
        if head.ledger is None or head.ledger.encode() != staged.ledger:
            raise not_on_branch(self.label, staged.branch)
        if head.parent != staged.root:
            raise branch_dropped(self.label, staged.branch)
        return head.added

    def _check_statements(self, staged: Staged, head: Snapshot) -> None:
        chain = {head.id}
        while head.id != staged.root:
            parent = None if head.parent is None else self.ledgers.read(self.table, head.parent)
            if parent is None:
                raise branch_dropped(self.label, staged.branch)
            head = parent
            chain.add(head.id)
        for snapshot_id in self.table.added_since(staged.root):
            snapshot = self.ledgers.read(self.table, snapshot_id)
            if snapshot is not None and snapshot.staged and snapshot.parent in chain:
                raise not_on_branch(self.label, staged.branch)

    def drop(self, branch: str) -> None:
        """Drop the branch of a failed batch; if that fails too, the next batch drops it."""
        try:
            self.table.refresh()
            if branch in self.table.branches:
                self.table.drop_branch(branch)
        except (ThrownError, JvmError) as error:
            logger.warning(
                "%s: branch %s of a failed batch is kept until the next batch: %s",
                self.label,
                branch,
                type(error).__name__,
            )
