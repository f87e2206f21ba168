"""One batch: plan it, judge it for each sink, write what is missing, and emit events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eo_listener.errors import EoListenerError, ForeignWriterError, GuardError, SettingsError
from eo_listener.events import BatchApplied, BatchFailed, BatchReplayed, Observers, QueryStateLost
from eo_listener.foreach_batch.batch_errors import SinkLedger
from eo_listener.foreach_batch.batch_guard import (
    Judgement,
    OnFirst,
    OnGap,
    OnRecreated,
    OtherHeads,
    is_doubtful,
    is_of_another_topic,
    is_unknown,
    judge_batch,
)
from eo_listener.foreach_batch.process_writes import (
    PROCESS_WRITES,
    ProcessWrites,
    refuse_shared_ledgers,
    second_call,
    second_writer,
)
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter, Written
from eo_listener.model.argument_checks import require_one_of
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import BatchVerdict, Head, LedgerKey
from eo_listener.model.ledger_place import PlacedSink
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import PlanReader, Sink
from eo_listener.offsets import TopicPartition

logger = logging.getLogger("eo_listener")


class DataFrames:
    """Handles a batch with DataFrames, classic and Connect. Spark's errors go to the caller."""

    def is_frame(self, made: object) -> bool:
        """Return whether it is a DataFrame of Spark, and none of pandas; Spark is not asked."""
        return any(
            kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
            for kind in type(made).__mro__
        )

    def hold(self, frame: Any) -> Any:
        """Keep the rows in memory and on disk once they are computed; return the frame to use."""
        return self.replan(frame.persist())

    def replan(self, frame: Any) -> Any:
        """Plan it again: a frame that has run keeps its plan, and sees no cache that came later."""
        return frame.select("*")

    def release(self, frame: Any) -> None:
        """Release what `hold` was given. Raises nothing: it is called after errors too."""
        try:
            frame.unpersist()
        except Exception:  # an earlier error counts more, and Spark ends what is left
            logger.debug("a batch's cached rows could not be released", exc_info=True)

    def discard(self, frame: Any) -> None:
        """Compute all rows, and keep none."""
        frame.write.format("noop").mode("overwrite").save()


Transform = Callable[[Any, PlannedBatch], Any]
"""Makes of a batch's DataFrame the one to write, or a list or tuple of them, one a sink."""


@dataclass(slots=True)
class _BatchInProgress:
    """A batch; `sink` is the one that is being written."""

    plan: PlannedBatch
    name: str
    began: float
    sink: Sink | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    """The needs of one sink; `place` is its index among the sinks."""

    place: int
    sink: Sink
    judgement: Judgement
    state_lost: bool  # the state of the query, under another checkpoint


class BatchRunner:
    """Applies the batches of one query to its sinks, each exactly once. For the query's thread.

    `name` is what the ledgers are kept under, by default the query's name. Raises SettingsError
    for what can never work.
    """

    def __init__(
        self,
        plans: PlanReader,
        sinks: Sequence[Sink],
        frames: DataFrames,
        *,
        transform: Transform | None = None,
        name: str | None = None,
        on_gap: OnGap = "fail",
        on_first: OnFirst = "fail",
        on_recreated: OnRecreated = "fail",
        new_checkpoint: str | None = None,
        observers: Observers | None = None,
        retry: RetryLimits | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        process: ProcessWrites = PROCESS_WRITES,
    ) -> None:
        _refuse(on_gap=on_gap, on_first=on_first, on_recreated=on_recreated)
        refuse_shared_ledgers(sinks)
        self._plans = plans
        self._sinks = tuple(sinks)
        self._frames = frames
        self._transform = transform
        self._name = name
        self._on_gap: OnGap = on_gap
        self._on_first: OnFirst = on_first
        self._on_recreated: OnRecreated = on_recreated
        self._new_checkpoint = new_checkpoint
        self._observers = observers or Observers()
        self._writer = SinkWriter(retry or RetryLimits(), sleep, clock)
        self._process = process
        self._writers = tuple(object() for _ in sinks)  # what each sink is known by there
        self._asked_in_run: dict[str, str] = {}  # by the sink's key: the run in which it was asked
        self._returned: tuple[str, int] | None = None  # run and batch of the last call that did

    def run(self, frame: Any, batch_id: int) -> None:
        """Bring a batch into every sink that lacks it; `frame` is what foreachBatch was given.

        Returns when all of it is durable in all of them. After that, a second call with the batch
        in the same run is a SettingsError; after a call that failed it is a retry. Raises what
        `judge_batch`, the sinks, the plan reader and the transform raise.
        """
        began = time.monotonic()
        plan: PlannedBatch | None = None
        batch: _BatchInProgress | None = None
        try:
            plan = self._plans.plan(frame, batch_id)
            fault_point("batch.planned")
            batch = _BatchInProgress(plan, self._ledger(plan), began)
            self._refuse_second_call(plan)
            self._apply(frame, batch)
            self._returned = plan.run_id, plan.batch_id
        except Exception as error:  # of the transform and of Spark too: reported, and raised again
            run_id = "" if plan is None else plan.run_id
            name = batch.name if batch is not None else self._name or ""
            sink = None if batch is None or batch.sink is None else batch.sink.label
            self._observers.notify(
                batch_failed(error, query=name, run_id=run_id, batch_id=batch_id, sink=sink)
            )
            raise

    def _ledger(self, plan: PlannedBatch) -> str:
        name = self._name or plan.query
        if not name:
            raise SettingsError(
                "the query has no name, and the ledger needs one that never changes",
                cause="after a restart the ledger finds by this name what this query has applied",
                fix='Name the query, .queryName("flights"), or pass exactly_once(..., '
                'name="flights")',
            )
        return name

    def _refuse_second_call(self, plan: PlannedBatch) -> None:
        if self._returned == (plan.run_id, plan.batch_id):
            raise second_call(plan)

    def _apply(self, frame: Any, batch: _BatchInProgress) -> None:
        heads = [self._applied(sink, batch) for sink in self._sinks]
        refuse_shared_ledgers(self._sinks)  # by keys that are certain now
        restart = self._on_recreated == "restart"
        if restart and any(is_of_another_topic(batch.plan, found) for found in heads):
            # A plan from before the topic was recreated, of a driver that was suspended, would put
            # the old topic in the place of the new one. Kafka's present answer is no older than any
            # of the heads, and compare-and-set keeps them as they were read.
            batch.plan = self._plans.plan(frame, batch.plan.batch_id)
        plan = batch.plan
        judged = [self._judge(place, found, batch) for place, found in enumerate(heads)]
        batch.sink = None
        fault_point("batch.judged")
        due = [one for one in judged if one.judgement.entry.moves]
        # Spark loses a query's state if a batch of it was not run (SPARK-52008).
        discard = plan.stateful and not due
        if discard:
            self._frames.discard(frame)
        for one in due:
            if one.state_lost:
                self._observers.notify(_state_lost(batch, one.sink))
        for one in judged:
            if one.judgement.verdict is BatchVerdict.REPLAY:
                self._observers.notify(_replayed(batch, one.sink, discarded=discard))
        if due:
            with self._made(frame, plan, due) as made:
                for one in due:
                    if not self._write(one, made[one.place], batch) and plan.stateful:
                        self._frames.discard(frame)

    def _applied(self, sink: Sink, batch: _BatchInProgress) -> Mapping[TopicPartition, Head]:
        batch.sink = sink
        heads = self._writer.read(sink, batch.name)
        self._process.add_name(batch.plan.run_id, LedgerKey(sink.key, batch.name))
        return heads

    def _other_heads(
        self, sink: Sink, heads: Mapping[TopicPartition, Head], batch: _BatchInProgress
    ) -> OtherHeads | None:
        """Return the other names under which the ledger has the query.

        Read in the first batch of a run, as a name changes with a restart, and if a head is
        missing.
        """
        plan = batch.plan
        if self._asked_in_run.get(sink.key) == plan.run_id and not is_unknown(plan, heads):
            return None
        moved = self._writer.ask(lambda: sink.moved_by(plan.query_id))
        self._asked_in_run[sink.key] = plan.run_id
        ours = self._process.names(plan.run_id)
        others = {key: found for key, found in moved.items() if key not in ours}
        return OtherHeads(sink=sink.key, heads=others)

    def _judge(
        self, place: int, heads: Mapping[TopicPartition, Head], batch: _BatchInProgress
    ) -> _Due:
        sink = batch.sink = self._sinks[place]
        other_heads = self._other_heads(sink, heads, batch)
        if other_heads is not None:
            batch.plan = from_the_beginning(self._plans, batch.plan, heads)
        plan = batch.plan
        judgement = judge_batch(
            plan,
            heads,
            name=batch.name,
            sink=sink.label,
            on_gap=self._on_gap,
            on_first=self._on_first,
            on_recreated=self._on_recreated,
            new_checkpoint=self._new_checkpoint,
            per_partition=sink.per_partition,
            other_heads=other_heads,
            ledger=_ledger_of(sink),
        )
        if judgement.replayed:
            # After a restart the batch that another one was refused is a replay for both.
            ledger, writer = _ledger_name(sink, batch), self._writers[place]
            of_this_run = any(heads[tp].run_id == plan.run_id for tp in judgement.replayed)
            if not self._process.claim_replay(plan, ledger, writer, of_this_run=of_this_run):
                raise second_writer(plan, sink)
        # Once a sink has a batch of this checkpoint, one of its heads is of this query id.
        is_new = all(head.query_id != plan.query_id for head in heads.values())
        return _Due(place, sink, judgement, plan.stateful and bool(heads) and is_new)

    def _write(self, due: _Due, frame: Any, batch: _BatchInProgress) -> bool:
        """Write what a sink lacks; whether it did, when its turn came, still lack it."""
        batch.sink = due.sink
        due, written = self._written(due, frame, batch)
        if written is None:
            self._observers.notify(_replayed(batch, due.sink, discarded=batch.plan.stateful))
            batch.sink = None
            return False
        fault_point("batch.applied")
        self._observers.notify(
            BatchApplied(
                query=batch.name,
                run_id=batch.plan.run_id,
                batch_id=batch.plan.batch_id,
                sink=due.sink.label,
                rows=None if written.applied is None else written.applied.rows,
                dead_letters=None if written.applied is None else written.applied.dead_letters,
                ranges={tp: move.range for tp, move in due.judgement.entry.moves.items()},
                replayed=due.judgement.replayed,
                gaps=due.judgement.gaps,
                skipped=due.judgement.skipped,
                attempts=written.attempts,
                seconds=time.monotonic() - batch.began,
                unexpected=() if written.applied is None else written.applied.unexpected,
            )
        )
        batch.sink = None
        return True

    def _written(
        self, due: _Due, frame: Any, batch: _BatchInProgress
    ) -> tuple[_Due, Written | None]:
        """Write what a sink lacks; None where another driver has written all of it meanwhile.

        With a transaction for each partition two drivers may take turns, so it goes on as long as
        there is less left to write.
        """
        least = None
        ledger, writer = _ledger_name(due.sink, batch), self._writers[due.place]
        while due.judgement.entry.moves:
            is_new = self._process.begin_write(batch.plan, ledger, writer)
            try:
                written = self._writer.write(due.sink, frame, due.judgement.entry, batch.plan)
            except ForeignWriterError as foreign:
                if is_new and not (self._writer.doubtful or due.sink.per_partition):
                    self._process.end_write(batch.plan, ledger, None)
                due = self._again(due, batch, foreign)
                left = len(due.judgement.entry.moves)
                if least is not None and left >= least:
                    raise
                least = left
            else:
                self._process.end_write(batch.plan, ledger, writer)
                return due, written
        return due, None

    def _again(self, due: _Due, batch: _BatchInProgress, foreign: ForeignWriterError) -> _Due:
        """Judge again, after the ledger was moved between the reading and the writing of it.

        A driver that was about to end may have written this very batch: then all is well, and the
        batch is a replay. Raises `foreign` in any other case.
        """
        heads = self._applied(due.sink, batch)
        if is_of_another_topic(batch.plan, heads):
            raise foreign  # the plan may be the older of the two
        try:
            return self._judge(due.place, heads, batch)
        except GuardError as error:
            raise foreign from error

    @contextmanager
    def _made(self, frame: Any, plan: PlannedBatch, due: Sequence[_Due]) -> Iterator[Sequence[Any]]:
        """The frames to write, one a sink; computed once where several sinks need them."""
        made = frame if self._transform is None else self._transform(frame, plan)
        several = isinstance(made, list | tuple)
        self._check_made(made if several else [made], several=several)
        if len(due) == 1:
            yield made if several else [made] * len(self._sinks)
            return
        kept = frame if several else made
        held = self._frames.hold(kept)
        try:
            if several:
                yield [self._frames.replan(one) for one in made]
            else:
                yield [held] * len(self._sinks)
        finally:
            self._frames.release(kept)

    def _check_made(self, made: Sequence[Any], *, several: bool) -> None:
        """Raise SettingsError if a sink would not get exactly one DataFrame."""
        wrong = [type(one).__name__ for one in made if not self._frames.is_frame(one)]
        if not wrong and (not several or len(made) == len(self._sinks)):
            return
        given = f"{len(made)} results" if several else type(made[0]).__name__
        if several and wrong:
            given += f", {wrong[0]} among them,"
        raise SettingsError(
            f"the transform returned {given} for {len(self._sinks)} sinks",
            fix="Return one Spark DataFrame for all sinks, or a list with one for each",
        )


def _refuse(**given: str) -> None:
    for name, value in given.items():
        consent = "restart" if name == "on_recreated" else "accept"
        require_one_of(name, value, ("fail", consent))


def _ledger_name(sink: Sink, batch: _BatchInProgress) -> tuple[str, LedgerKey]:
    return sink.label, LedgerKey(sink.key, batch.name)


def _ledger_of(sink: Sink) -> SinkLedger:
    return SinkLedger(sink.key, sink.ledger_place if isinstance(sink, PlacedSink) else None)


def _state_lost(batch: _BatchInProgress, sink: Sink) -> QueryStateLost:
    return QueryStateLost(
        query=batch.name,
        run_id=batch.plan.run_id,
        batch_id=batch.plan.batch_id,
        sink=sink.label,
    )


def _replayed(batch: _BatchInProgress, sink: Sink, *, discarded: bool) -> BatchReplayed:
    return BatchReplayed(
        query=batch.name,
        run_id=batch.plan.run_id,
        batch_id=batch.plan.batch_id,
        sink=sink.label,
        discarded=discarded,
    )


def batch_failed(
    error: Exception, *, query: str, run_id: str, batch_id: int, sink: str | None
) -> BatchFailed:
    """Return the event; the texts of foreign errors may hold secrets, and are left out."""
    ours = error if isinstance(error, EoListenerError) else None
    return BatchFailed(
        query=query,
        run_id=run_id,
        batch_id=batch_id,
        sink=sink,
        error=type(error).__name__,
        problem=ours.problem if ours else "the transform or Spark failed, not eo_listener",
        cause=ours.cause if ours else None,
        fix=ours.fix
        if ours
        else "Read the query's own error, query.exception(), or the driver's log",
    )


def from_the_beginning(
    plans: PlanReader, plan: PlannedBatch, heads: Mapping[TopicPartition, Head]
) -> PlannedBatch:
    """The plan, of which nothing counts as read by earlier batches that they did not read.

    The function may have returned without calling exactly_once while its batches were empty. If the
    beginning cannot be known, the plan stays as it is.
    """
    if not is_doubtful(plan, heads):
        return plan
    try:
        return plan.began_at(plans.began(plan))
    except EoListenerError as error:
        logger.warning(
            "Assuming that batches before batch %s read records: the offsets at which the query "
            "began cannot be determined: %s",
            plan.batch_id,
            error,
        )
        return plan
