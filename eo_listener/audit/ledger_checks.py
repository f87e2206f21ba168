"""Compares each sink's ledger with the checkpoint. Reads and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from eo_listener.audit.advice import FROM_EARLIEST, STOP, Advice
from eo_listener.audit.intervals import common, size
from eo_listener.audit.next_batch import NextBatch, Verdict, starts
from eo_listener.audit.position_finding import (
    Findings,
    Harm,
    PositionFinding,
    PositionFindingKind,
    Ranges,
    listed,
    single,
)
from eo_listener.audit.positions import (
    CheckpointPositions,
    Ends,
    LedgerPositions,
    Positions,
    StorePositions,
)
from eo_listener.audit.source_checks import misplaced
from eo_listener.batch_guard.errors import not_written
from eo_listener.errors import (
    GapError,
    GuardError,
    OverlapError,
    RegressionError,
    SettingsError,
    few,
    length,
)
from eo_listener.model.check_finding import Severity
from eo_listener.model.ledger import LedgerKey, TableRollback
from eo_listener.model.ledger_place import LedgerStore, literal
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition


def no_ledger(store: StorePositions, positions: Positions, advice: Advice) -> PositionFinding:
    """Return the finding that a store has no ledger of the query."""
    query = "the query" if positions.query is None else f"query {positions.query!r}"
    if store.renamed:
        key = next(iter(store.renamed))
        return PositionFindingKind.LEDGER_RENAMED.finding(
            store.store,
            f"its ledger has no entry for {query}, but has heads of this checkpoint under query "
            f"{key.query!r}, sink {key.sink!r}",
            cause="the requested name is wrong; or the query, its name= or the sink's table "
            "was renamed",
            fix=_carried_over(store, key, positions, advice),
        )
    stored = few(f"query {key.query!r}, sink {key.sink!r}" for key in store.other_keys)
    if positions.checkpoint is not None and positions.checkpoint.has_done_nothing:
        text = f"its ledger has no entry for {query}, which has committed no batch yet"
        if stored and positions.query is None:
            text = "the query has committed no batch yet, so the audit cannot tell which ledger is "
            text += "its own: name it with --query"
        return PositionFindingKind.LEDGER_EMPTY.finding(
            severity=Severity.NOTE,
            about=store.store,
            what=text + (f"; it has {stored}" if stored else ""),
        )
    return PositionFindingKind.LEDGER_EMPTY.finding(
        store.store,
        f"its ledger has no entry for {query}"
        + (f"; it has {stored}" if stored else ": it is empty"),
        cause="the ledger belongs to other queries, the name is wrong, or the store was "
        "emptied or restored from a copy older than the query",
        fix="name the query as the ledger does (--query NAME); or restore the store; or, if "
        f"the table is empty, {FROM_EARLIEST}",
    )


def other_names(ledger: LedgerPositions, store: StorePositions, positions: Positions) -> Findings:
    """Yield a note if the checkpoint's query id has ledgers of the same sink under other names."""
    names = [key.query for key in store.renamed if key.sink == ledger.key.sink]
    if names and positions.query is None:
        yield PositionFindingKind.LEDGER_RENAMED.finding(
            severity=Severity.NOTE,
            about=positions.named(ledger),
            what="this query id also has a ledger of the same sink under "
            f"{few(map(repr, names))}: the query was renamed, or another query runs on a "
            "copy of its checkpoint; name the intended query: --query NAME",
        )


def _carried_over(
    store: StorePositions, key: LedgerKey, positions: Positions, advice: Advice
) -> str:
    back = f"give the query its old name again: exactly_once(..., name={key.query!r})"
    new = LedgerKey(positions.sink or key.sink, positions.query or key.query)
    rename = advice.rename_ledger(store.address, key, new)
    options = advice.name_ledger(key, new)
    return f"name it as the ledger does, {options}; or, if it was renamed, {rename}; or {back}"


def check_ledgers(positions: Positions, advice: Advice, next_batch: NextBatch | None) -> Findings:
    """Yield the findings about each ledger."""
    for place, store in enumerate(positions.stores):
        if not store.ledgers:
            yield no_ledger(store, positions, advice)
        verdicts = [None] * len(store.ledgers) if next_batch is None else next_batch.verdicts[place]
        for ledger, verdict in zip(store.ledgers, verdicts, strict=True):
            check = _LedgerCheck(positions, store, ledger, advice, next_batch, verdict)
            findings = list(check.findings())
            yield from findings
            yield from other_names(ledger, store, positions)
            if not any(finding.matters for finding in findings):
                yield PositionFindingKind.AGREED.finding(
                    check.about, f"{len(ledger.heads)} partitions, {check.agreement}"
                )
    yield from _differing(positions)


class _LedgerCheck:
    """Checks one ledger; `verdict` is the judgement of `next_batch` for the ledger's sink."""

    def __init__(
        self,
        positions: Positions,
        store: StorePositions,
        ledger: LedgerPositions,
        advice: Advice,
        next_batch: NextBatch | None,
        verdict: Verdict | None,
    ) -> None:
        self._positions = positions
        place = LedgerStore.from_address(store.address)
        self._is_apart = place is None or not place.in_table
        self._ledger = ledger
        self._advice = advice
        self._next = next_batch
        self._verdict = verdict
        self._incomparable = misplaced(positions)
        self.about = positions.named(ledger)
        checkpoint = positions.checkpoint
        self._checkpoint = checkpoint if checkpoint is not None and checkpoint.exists else None

    @property
    def agreement(self) -> str:
        """The text for a ledger without problems: how its heads compare with the checkpoint."""
        if self._checkpoint is None:
            return "nothing to compare them with"
        if self._next is None or isinstance(self._verdict, Exception):
            return "none behind the checkpoint"
        verb = "accepts"
        if self._verdict is not None and self._verdict.replayed:
            verb = "has a part of" if self._verdict.entry.moves else "has"
        return f"none behind the checkpoint; it {verb} batch {self._next.plan.batch_id}"

    @property
    def _begin(self) -> str:
        """The advice to start at the ledger's position, if the ledger is known to be the query's.

        If another sink of the query has a different position, no start fits both.
        """
        if self._ledger.replaced:
            return self._advice.begin_from(self._ledger)
        begin = self._advice.begin_from_ledger(self._ledger)
        different = [
            self._positions.named(other_ledger)
            for other_ledger in self._positions.ledgers
            if other_ledger.key.query == self._ledger.key.query
            and other_ledger.ends != self._ledger.ends
        ]
        if different:
            begin = (
                "give this sink a query of its own, since no start fits both it and "
                f"{few(different)}: start the query without this sink, and another query with this "
                f"sink alone: {begin.removeprefix(STOP)}"
            )
        if self._is_own:
            return begin
        name = literal(self._ledger.key.query)
        return (
            f"that ledger has no batch of this checkpoint: check that {name} is the name of this "
            f"query; if it is, {begin}; if it names another query, name this query: --query NAME"
        )

    @property
    def _is_own(self) -> bool:
        """True if the ledger is known to be the query's: by its name, or by a batch in it."""
        own = None if self._checkpoint is None else self._checkpoint.query_id
        is_named = self._positions.query is not None or own is None
        return is_named or any(head.query_id == own for head in self._ledger.heads.values())

    @property
    def _severity(self) -> Severity:
        return Severity.PROBLEM if self._is_own else Severity.WARNING

    @property
    def _harm(self) -> Harm:
        """The harm of a ledger that lacks offsets; a ledger of another query proves no loss."""
        return Harm.LOST if self._is_own else Harm.UNPROVED

    def findings(self) -> Findings:
        ledger = self._ledger
        yield from self._recorded()
        # A database is restored with rows and ledger together; a ledger in a topic can be restored,
        # deleted or cut back without the topics of its rows, and they without the ledger.
        if ledger.replaced:
            yield PositionFindingKind.TARGET_RECREATED.finding(
                ledger.label,
                f"topic {few(ledger.replaced)}, to which its rows went, was deleted, or deleted "
                "and recreated; its batches will be refused",
                cause="the rows that the ledger records as applied went to the older topic and "
                "were deleted with it",
                fix=self._advice.begin_from(ledger),
            )
        if ledger.unfinished_batch is not None:
            yield PositionFindingKind.BATCH_BEGUN.finding(
                severity=Severity.NOTE
                if self._is_at_work(ledger.unfinished_batch)
                else Severity.WARNING,
                about=self.about,
                what=f"batch {ledger.unfinished_batch} was begun and not finished: the target may "
                "hold part of its rows",
                cause="the driver is writing it, or ended while writing it; this sink has no "
                "transactions",
                fix="restart the query with its checkpoint: it finishes that batch first",
            )
        if self._checkpoint is None:
            yield from self._was_taken_back(Severity.WARNING)
            return
        short = [
            *self._lacking(self._checkpoint.done, self._checkpoint.began),
            *self._behind(self._checkpoint.done),
        ]
        yield from short or self._was_taken_back(Severity.NOTE)
        if not short and isinstance(self._verdict, Exception) and self._next is not None:
            yield from self._refusal(self._next, self._verdict)
        else:
            yield from self._foreign(self._checkpoint)

    def _is_at_work(self, batch: int) -> bool:
        """Return True if the checkpoint has planned `batch` and has not committed it."""
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.planned is None:
            return False
        return checkpoint.newest < batch <= checkpoint.planned

    def _was_taken_back(self, severity: Severity) -> Findings:
        """Yield a finding of this severity if the table was rolled back."""
        back = self._ledger.rollback
        if back is not None:
            yield PositionFindingKind.LEDGER_TAKEN_BACK.finding(
                severity=severity,
                about=self.about,
                what=f"the table and its ledger were rolled back: {back.cause}",
                fix=self._to_undo(back),
            )

    def _to_undo(self, back: TableRollback) -> str:
        """Return the advice to undo a rollback, if a command can do so, or to restart the query."""
        restart = FROM_EARLIEST
        if self._ledger.heads:
            restart = self._begin
        return f"{back.fix}; or, if that was intended, {restart}" if back.fix else restart

    def _foreign(self, checkpoint: CheckpointPositions) -> Findings:
        """Yield a finding for heads that another query moved, although they fit the checkpoint.

        If the query has read nothing yet, there is no finding: the query may have started from this
        ledger.
        """
        foreign = {
            tp: OffsetRange(checkpoint.began[tp], head.range.until)
            for tp, head in self._ledger.heads.items()
            if head.query_id != checkpoint.query_id
            and checkpoint.done.get(tp) == head.range.until
            and checkpoint.began.get(tp, head.range.until) < head.range.until
            and tp not in self._incomparable
        }
        if foreign:
            yield PositionFindingKind.LEDGER_FOREIGN.finding(
                self.about,
                "it agrees with the checkpoint, but another query has moved it: "
                f"{listed(foreign)}; the audit cannot tell if the sink has what this query has "
                "read",
                cause=self._who(foreign),
                fix="if the query has a newer checkpoint, audit that one, and delete this one; if "
                "not, name the query as the ledger does (--query NAME), then count the rows "
                "(--rows)",
                ranges=single(foreign),
            )

    def _recorded(self) -> Findings:
        """Yield the findings about the ledger's history."""
        for kind, ranges, text, cause in (
            (
                PositionFindingKind.HISTORY_MISSING,
                self._ledger.missing,
                "its history lacks offsets between two batches",
                "rows of the ledger were deleted or edited",
            ),
            (
                PositionFindingKind.HISTORY_REPEATED,
                self._ledger.repeated,
                "its history has the same offsets in two batches",
                "rows of the ledger were edited, or the ledger was moved back by hand",
            ),
        ):
            if ranges:
                yield kind.finding(
                    self.about,
                    f"{text}: {_every(ranges)}",
                    cause=cause,
                    fix="count the rows: add --rows to this command",
                    ranges=ranges,
                )
        if self._ledger.gaps:
            yield PositionFindingKind.GAP_ACCEPTED.finding(
                self.about,
                f"it records accepted gaps: {_every(self._ledger.gaps)}",
                ranges=self._ledger.gaps,
            )

    def _lacking(self, done: Ends, began: Ends) -> Findings:
        lacking = {
            tp: OffsetRange(began.get(tp, 0), until)
            for tp, until in done.items()
            if tp not in self._ledger.heads
            and until > began.get(tp, 0)
            and tp not in self._incomparable
        }
        back = self._ledger.rollback
        if lacking:
            yield PositionFindingKind.LEDGER_LACKS.finding(
                self.about,
                f"it lacks partitions that the query has read: {listed(lacking)}",
                cause="rows of the ledger were deleted, the query or the table was renamed, or the "
                "sink is newer than the query"
                if back is None
                else back.cause,
                fix=self._advice.begin_or_restore(self._ledger, self._begin)
                if back is None
                else self._to_undo(back),
                ranges=single(lacking),
                severity=self._severity,
                harm=self._harm,
            )

    def _behind(self, done: Ends) -> Findings:
        behind = {
            tp: OffsetRange(head.range.until, done[tp])
            for tp, head in self._ledger.heads.items()
            if tp in done and head.range.until < done[tp] and tp not in self._incomparable
        }
        if not behind:
            return
        present = self._present(behind)
        if present:
            yield PositionFindingKind.LEDGER_BEHIND.finding(
                self.about,
                f"it is behind the checkpoint: {listed(present)}; but the table has rows at these "
                "offsets, except where Kafka may have no record",
                cause="only the ledger was restored from an older copy, or another program wrote "
                "these rows",
                fix=self._advice.keep_rows(),
                ranges=single(present),
                harm=Harm.UNPROVED,
            )
            behind = {tp: offsets for tp, offsets in behind.items() if tp not in present}
            if not behind:
                return
        gone, back = self._deleted(behind), self._ledger.rollback
        rest = f", of which Kafka has deleted up to {size(gone.values()):,}" if gone else ""
        yield PositionFindingKind.LEDGER_BEHIND.finding(
            self.about,
            f"it is behind the checkpoint: {listed(behind)}; {size(behind.values()):,} records "
            f"that the query has processed are not in the sink{rest}",
            cause="the store was restored from an older copy, the query ran batches without "
            "exactly_once, or rows of the ledger were edited; to leave out a sink that "
            "the query no longer writes to, name the other sink with --sink"
            if back is None
            else back.cause,
            fix=self._advice.catch_up(self._ledger, self._begin, is_apart=self._is_apart)
            if back is None
            else self._to_undo(back),
            ranges=single(behind),
            severity=self._severity,
            harm=self._harm,
        )

    def _present(self, behind: Ranges) -> dict[TopicPartition, OffsetRange]:
        """Return the partitions of `behind` of which the table has most rows.

        Transaction markers and compacted records are offsets without a row.
        """
        unclaimed = self._ledger.unclaimed or {}
        return {
            tp: offsets
            for tp, offsets in behind.items()
            if 2 * size(common((offsets,), unclaimed.get(tp, ()))) >= offsets.until - offsets.start
        }

    def _deleted(self, behind: Ranges) -> dict[TopicPartition, OffsetRange]:
        """Return the offsets in `behind` that Kafka has deleted."""
        source = self._positions.source
        if source is None:
            return {}
        return {
            tp: OffsetRange(offsets.start, min(offsets.until, source.logs[tp].start))
            for tp, offsets in behind.items()
            if tp in source.logs and source.logs[tp].start > offsets.start
        }

    def _refusal(self, batch: NextBatch, error: GuardError | SettingsError) -> Findings:
        """Yield the finding that the sink will refuse the next batch with `error`.

        A finding about the source's log already reports offsets that the log no longer has.
        """
        ranges = error.ranges if isinstance(error, GuardError) else {}
        begins = starts(batch.plan)
        known = set(self._incomparable)
        if isinstance(error, GapError):  # deleted by Kafka: the source's check has found them
            known |= {tp for tp, lost in ranges.items() if lost.start >= begins.get(tp, lost.until)}
        if ranges and known.issuperset(ranges):
            return
        ahead = {
            tp: OffsetRange(offset, self._ledger.heads[tp].range.until)
            for tp, offset in begins.items()
            if tp in self._ledger.heads and self._ledger.heads[tp].range.until > offset
        }
        reason = error.problem.removeprefix(
            not_written(batch.plan, name=self._ledger.key.query, sink=self.about)
        )
        since = "" if batch.ago is None else f", planned {length(batch.ago)} ago"
        cause, fix = error.cause or "", error.fix or ""
        # The sink's own fix warns of what a new checkpoint loses.
        is_plain = batch.plan.counted is None and not batch.plan.stateful
        if ahead and isinstance(error, (OverlapError, RegressionError)):
            accepted = all(self._ledger.accepts(tp, offsets) for tp, offsets in ahead.items())
            cause = "the batch reads offsets of an accepted gap" if accepted else self._who(ahead)
            fix = f"stop the other driver, if it is running; {self._begin if is_plain else fix}"
        elif self._ledger.replaced or (isinstance(error, GapError) and is_plain):
            fix = self._begin
        yield PositionFindingKind.BATCH_REFUSED.finding(
            self.about,
            f"it will refuse batch {batch.plan.batch_id}{since}, with {type(error).__name__}: "
            f"{reason}",
            cause=cause,
            fix=fix,
            ranges=single({tp: lost for tp, lost in ranges.items() if tp != BATCHES}),
            severity=self._severity,
            harm=self._harm if isinstance(error, GapError) else Harm.NONE,
        )

    def _who(self, ranges: Ranges) -> str:
        own = self._checkpoint.query_id if self._checkpoint is not None else None
        head = self._ledger.heads[min(ranges)]
        run = f"run {head.run_id}, batch {head.batch_id}"
        if own is not None and head.query_id != own:
            return (
                f"another checkpoint has moved it (query id {head.query_id}, {run}; this "
                f"checkpoint has {own}): a second driver runs, or the query has since been "
                "started with that checkpoint"
            )
        return (
            f"{run} has moved it: the checkpoint was restored from an older copy, or a second "
            "driver runs on a copy of it"
        )


def _every(ranges: Mapping[TopicPartition, tuple[OffsetRange, ...]]) -> str:
    return few(
        f"{tp} {offsets}" for tp, intervals in sorted(ranges.items()) for offsets in intervals
    )


def _differing(positions: Positions) -> Findings:
    """Compare the ledgers of each query's sinks with each other, unless a checkpoint exists."""
    by_query: dict[str, list[LedgerPositions]] = {}
    for ledger in positions.ledgers:
        by_query.setdefault(ledger.key.query, []).append(ledger)
    checkpoint = positions.checkpoint
    if checkpoint is not None and checkpoint.exists:
        return
    for ledgers in by_query.values():
        first = ledgers[0]
        for second in ledgers[1:]:
            differing = {
                tp: OffsetRange(*sorted((head.range.until, second.heads[tp].range.until)))
                for tp, head in first.heads.items()
                if tp in second.heads and not first.may_have_met(second, tp)
            }
            if differing:
                yield PositionFindingKind.SINKS_DIFFER.finding(
                    f"{positions.named(first)} and {positions.named(second)}",
                    f"their ledgers differ: {listed(differing)}",
                    cause="the last batch reached only one of them before the query ended, or one "
                    "store was restored from an older copy",
                    fix="restart the query with its checkpoint: it writes that batch to the "
                    "other sink; to compare both with the checkpoint, add --checkpoint FOLDER",
                    ranges=single(differing),
                )
