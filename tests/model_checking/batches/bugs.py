"""Bugs planted in the judgement, the steps and the sink, to see whether the model notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eo_listener.batch_guard import judge as batch_guard
from eo_listener.batch_guard.error_kinds import BatchErrorKind
from eo_listener.batch_guard.judge import Judgement, judge_batch
from eo_listener.errors import ForeignWriterError
from eo_listener.foreach_batch import batch_runner as steps
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.sink_writer import SinkWriter, Written
from eo_listener.foreach_batch.starting_offsets import origins, resolve
from eo_listener.model.ledger import Applied, BatchVerdict, Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.testing import MemorySink
from tests.model_checking.batches import counted_bugs
from tests.model_checking.batches.tape import TapeTransaction
from tests.model_checking.bugs import Bug, always, bug

_BatchCheck = batch_guard._BatchCheck
_transact, _move, _write = MemorySink._transact, MemorySink._move, SinkWriter.write
_apply, _judge_range, _continue = (
    BatchRunner._apply,
    _BatchCheck._judge_range,
    _BatchCheck._continue,
)
_all_written = BatchRunner._written
_missing, _begin_recreated, _one_move = (
    SinkWriter._missing,
    _BatchCheck._begin_recreated,
    _BatchCheck._move,
)
_is_there = _BatchCheck._is_there


def _rows_first(self: MemorySink, rows: list[Any], entry: Entry) -> Applied:
    """The rows in one transaction, the ledger in the next."""
    written = self.store.begin()
    written.insert(self.key, rows)
    written.commit()
    return replace(_transact(self, [], entry), rows=len(rows))


def _ledger_first(self: MemorySink, rows: list[Any], entry: Entry) -> Applied:
    """The ledger in one transaction, the rows in the next."""
    _transact(self, [], entry)
    written = self.store.begin()
    written.insert(self.key, rows)
    written.commit()
    return Applied(rows=len(rows))


def _uncounted(self: MemorySink, transaction: Any, entry: Entry) -> None:
    """Whether a head was moved is not checked."""
    try:
        _move(self, transaction, entry)
    except ForeignWriterError:
        return


def _only_the_first(self: MemorySink, transaction: Any, entry: Entry) -> None:
    """One head stands for all."""
    _move(self, transaction, replace(entry, moves=dict(list(entry.moves.items())[:1])))


def _by_offset(self: TapeTransaction, key: str, query: str, tp: Any, found: Any, head: Any) -> int:
    """A head counts as found when its offset is, whoever has set it."""
    held = self.locked().get((query, tp))
    same = (held and held.range.until) == (found and found.range.until)
    return _set(self, key, query, tp, held if same else found, head)


def _blind_insert(
    self: TapeTransaction, key: str, query: str, tp: Any, found: Any, head: Any
) -> int:
    """A new head is put over whatever is there."""
    held = self.locked().get((query, tp))
    return _set(self, key, query, tp, held if found is None else found, head)


_set = TapeTransaction.move


def _by_number(plan: Any, applied: Mapping[Any, Any], **how: Any) -> Judgement:
    """A batch is a replay when its number is not above that of the last."""
    last = max((head.batch_id for head in applied.values()), default=-1)
    found = judge_batch(plan, {}, **how)
    moves = {tp: move._replace(expected=applied.get(tp)) for tp, move in found.entry.moves.items()}
    if plan.batch_id <= last:
        return replace(found, verdict=BatchVerdict.REPLAY, entry=replace(found.entry, moves={}))
    return replace(found, entry=replace(found.entry, moves=moves))


def _not_run(self: BatchRunner, frame: Any, course: Any) -> None:
    """A replay is skipped, stateful or not."""
    _apply(self, frame, replace(course, plan=replace(course.plan, stateful=False)))


def _first_for_all(self: BatchRunner, frame: Any, course: Any) -> None:
    """The ledger of the first sink is taken for that of all."""
    heads = self._sinks[0].applied(course.name)
    for sink in self._sinks[1:]:
        sink.applied = lambda query: heads  # type: ignore[method-assign]  # that is the bug
    _apply(self, frame, course)


def _from_history(self: MemorySink, query: str) -> Mapping[Any, Any]:
    store: Any = self.store
    heads: Mapping[Any, Any] = store.read_history(self.key)
    return heads


def _success(self: SinkWriter, sink: Any, entry: Entry, unknown: Any) -> Entry:
    """No answer is a good answer."""
    return replace(entry, moves={})


def _failure(self: SinkWriter, sink: Any, entry: Entry, unknown: Any) -> Entry:
    """No answer means that nothing was written: again, on top of what is there now."""
    return _refreshed(sink, entry)


def _reread(self: SinkWriter, sink: Any, frame: Any, entry: Entry, *more: Any) -> Written:
    """The heads are read once more before the write, and what stands there counts as found."""
    return _write(self, sink, frame, _refreshed(sink, entry), *more)


def _refreshed(sink: Any, entry: Entry) -> Entry:
    heads = sink.applied(entry.query)
    moves = {tp: move._replace(expected=heads.get(tp)) for tp, move in entry.moves.items()}
    return replace(entry, moves=moves)


def _each_alone(plan: Any, applied: Any, **how: Any) -> Judgement:
    """What only a sink with a transaction a partition may do."""
    return judge_batch(plan, applied, **{**how, "per_partition": True})


def _whole_each_time(self: MemorySink, frame: Any, entry: Entry, plan: Any) -> Applied:
    """A transaction a partition, the rows of all in each."""
    rows = frame.collect()
    for tp, move in entry.moves.items():
        self._transact(rows, replace(entry, moves={tp: move}))
    return Applied(rows=len(rows))


def _empty_unrecorded(self: MemorySink, transaction: Any, entry: Entry) -> None:
    """A range without offsets is not put into the ledger."""
    moves = {tp: move for tp, move in entry.moves.items() if move.verdict is not None}
    _move(self, transaction, replace(entry, moves=moves))


def _some_is_all(self: SinkWriter, sink: Any, entry: Entry) -> Entry:
    """Where one partition is in, all are taken to be."""
    left = _missing(self, sink, entry)
    return replace(entry, moves={}) if len(left.moves) < len(entry.moves) else left


def _all_unread(self: PlannedBatch, initial: Any) -> PlannedBatch:
    """What earlier batches have planned counts as not read, wherever the query began."""
    return replace(self, continued=frozenset())


def _foreign_at_once(self: BatchRunner, due: Any, course: Any, foreign: ForeignWriterError) -> Any:
    """A head that was moved is another driver's, whatever it moved it to."""
    raise foreign


def _twice_at_most(self: BatchRunner, *arguments: Any) -> Any:
    """The second head that was moved is not checked."""
    steps: Any = self
    again = self._again

    def once(*what: Any) -> Any:
        steps._again = lambda due, course, foreign: _foreign_at_once(self, due, course, foreign)
        return again(*what)

    steps._again = once
    return _all_written(self, *arguments)


def _not_foreign(self: SinkWriter, *arguments: Any) -> Written:
    """When another has moved the ledger, the batch must be there."""
    try:
        return _write(self, *arguments)
    except ForeignWriterError:
        return Written(applied=None, attempts=1)


def _overlap_is_next(self: Any, tp: Any, span: Any, head: Any) -> None:
    if head is not None and span.start < head.range.until < span.until:
        self.moves[tp] = self._move(tp, span, BatchVerdict.NEXT, head)
        return
    _judge_range(self, tp, span, head)


def _anyones_replay(self: Any, tp: Any, span: Any, head: Any) -> None:
    """A range that somebody has applied under this name is a replay, whoever it was."""
    if head is not None and span == head.range:
        self.replayed[tp] = span
        return
    _judge_range(self, tp, span, head)


def _gap_is_next(
    self: Any, tp: Any, span: Any, head: Any, reached: int, verdict: BatchVerdict
) -> None:
    self.moves[tp] = self._move(tp, span, verdict, head)


def _endless_log(
    self: Any, tp: Any, span: Any, head: Any, reached: int, verdict: BatchVerdict
) -> None:
    self.plan = replace(self.plan, log_starts={})
    _continue(self, tp, span, head, reached, verdict)


def _unasked(self: Any, tp: Any, span: Any, head: Any) -> None:
    """A topic that was recreated is begun again though nobody said so."""
    self.restarts = True
    _begin_recreated(self, tp, span, head)


def _anywhere(self: Any, tp: Any, span: Any, head: Any) -> None:
    """A topic that was recreated is begun wherever the batch starts."""
    self._continue(tp, span, head, span.start, BatchVerdict.FIRST)


def _nothing_is_there(self: Any, tp: Any, span: Any) -> bool:
    """Of a range without offsets it is not asked whether the log reaches as far."""
    return span.start == span.until or _is_there(self, tp, span)


def _same_id(self: Any, tp: Any, span: Any, verdict: Any, found: Any, gap: Any = None) -> Any:
    """The head of a topic that was recreated keeps the old id."""
    move = _one_move(self, tp, span, verdict, found, gap)
    return move if found is None else move._replace(topic_id=found.topic_id)


def _kept(self: Any, ranges: Any) -> None:
    """What is left of the topic before counts as vanished forever."""
    for tp in self.applied.keys() - ranges.keys():
        self.errors.add(BatchErrorKind.VANISHED, tp, self.applied[tp].range)


BUGS = (
    bug("rows before their ledger", "crash", MemorySink, "_transact", _rows_first),
    bug("ledger before its rows", "crash", MemorySink, "_transact", _ledger_first),
    bug("compare-and-set without row count", "zombie", MemorySink, "_move", _uncounted),
    bug("one head stands for all", "crash", MemorySink, "_move", _only_the_first),
    bug("compare-and-set by offset", "stateful zombie", TapeTransaction, "move", _by_offset),
    bug("new head over an old one", "zombie", TapeTransaction, "move", _blind_insert),
    bug("empty batch not recorded", "stateful", MemorySink, "_move", _empty_unrecorded),
    bug("head taken from history", "crash", MemorySink, "applied", _from_history),
    bug("all rows for each partition", "alone", MemorySink, "apply", _whole_each_time),
    bug("batch id instead of ranges", "ledger", steps, "judge_batch", _by_number),
    bug("stateful replay not run", "stateful", BatchRunner, "_apply", _not_run),
    bug("the first sink's ledger for all", "two sinks", BatchRunner, "_apply", _first_for_all),
    bug("mixed replay allowed", "forgotten", steps, "judge_batch", _each_alone),
    bug("topic id ignored", "recreate", _BatchCheck, "_is_recreated", always(False)),
    bug(
        "recreated without consent",
        "recreate and new checkpoint",
        _BatchCheck,
        "_begin_recreated",
        _unasked,
    ),
    bug("recreated, judged by offset", "restart", _BatchCheck, "_is_recreated", always(False)),
    bug("recreated, begun in its middle", "restart", _BatchCheck, "_begin_recreated", _anywhere),
    bug("recreated, old id kept", "restart", _BatchCheck, "_move", _same_id),
    bug(
        "recreated, beyond its log",
        "restart, accepted",
        _BatchCheck,
        "_is_there",
        _nothing_is_there,
    ),
    bug("recreated with fewer, kept", "restart of fewer", _BatchCheck, "find_vanished", _kept),
    bug(
        "plan older than the ledger",
        "restart and zombie",
        steps,
        "topic_was_recreated",
        always(False),
    ),
    bug("begun twice by two starts", "restart alone", resolve, "_of_now", always(set())),
    bug("ledgers of two topics", "restart, two sinks", origins, "_refuse_two_topics", always(None)),
    bug("overlap taken for next", "forgotten", _BatchCheck, "_judge_range", _overlap_is_next),
    bug("replay by another query", "stranger", _BatchCheck, "_judge_range", _anyones_replay),
    bug("gap taken for next", "careless", _BatchCheck, "_continue", _gap_is_next),
    bug("log start ignored", "retention", _BatchCheck, "_continue", _endless_log),
    bug("no answer taken for success", "answers", SinkWriter, "_found_out", _success),
    bug("no answer taken for failure", "answers", SinkWriter, "_found_out", _failure),
    bug("head read again at the write", "zombie", SinkWriter, "write", _reread),
    bug("some landed taken for all", "alone in doubt", SinkWriter, "_missing", _some_is_all),
    bug("first in an emptied store", "emptied store", BatchRunner, "_other_heads", always(None)),
    Bug(
        "first under a new name",
        "renamed",
        ((_BatchCheck, "is_doubted", always(False)), (_BatchCheck, "find_doubled", always(False))),
    ),
    bug("own name alone is asked for", "renamed", MemorySink, "moved_by", always({})),
    bug("every batch a beginning", "emptied store", PlannedBatch, "began_at", _all_unread),
    bug("skipped offsets not recorded", "emptied, accepted", batch_guard, "is_late", always(False)),
    bug("moved head judged once", "overlap", BatchRunner, "_again", _foreign_at_once),
    bug("moved head judged twice", "alone", BatchRunner, "_written", _twice_at_most),
    bug("renamed back, not looked up", "renamed twice", _BatchCheck, "find_doubled", always(False)),
    bug("a foreign ledger taken for ours", "ledger and zombie", SinkWriter, "write", _not_foreign),
    *counted_bugs.BUGS,
)
