"""Runs one batch: reads its plan, judges it for each sink, writes it, and emits events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from eo_listener.batch_guard.errors import SinkLedger
from eo_listener.batch_guard.judge import (
    Judgement,
    OnFirst,
    OnGap,
    OnRecreated,
    OtherHeads,
    is_doubtful,
    is_unknown,
    judge_batch,
    topic_was_recreated,
)
from eo_listener.errors import EoListenerError, ForeignWriterError, GuardError, SettingsError
from eo_listener.events import BatchApplied, BatchFailed, BatchReplayed, Observers, QueryStateLost
from eo_listener.foreach_batch.process_writes import (
    PROCESS_WRITES,
    ProcessWrites,
    WriteTarget,
    refuse_second_call,
    refuse_shared_ledgers,
    second_writer,
)
from eo_listener.foreach_batch.sink_writer import Renew, RetryLimits, SinkWriter, Written
from eo_listener.model.argument_checks import require_one_of
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import BatchVerdict, Head, LedgerKey
from eo_listener.model.ledger_place import place_of
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import PlanReader, Sink
from eo_listener.offsets import TopicPartition

logger = logging.getLogger("eo_listener")


class Frames(Protocol):
    """The operations on DataFrames that a batch needs. They raise Spark's errors."""

    def is_frame(self, output: object) -> bool:
        """Return True for a DataFrame of Spark."""

    def has_shuffle(self, frame: Any) -> bool:
        """Return True if a shuffle precedes the rows of `frame`."""

    def cached(self, frame: Any) -> AbstractContextManager[None]:
        """Cache the rows of `frame` while Spark computes several frames that use them."""

    def computed(self, frame: Any, source: Any, plan: PlannedBatch) -> AbstractContextManager[Any]:
        """Compute each part of the rows of `frame` exactly once, and yield the frame to use."""

    def discard(self, frame: Any) -> None:
        """Compute all rows of `frame`, and discard them."""


Transform = Callable[[Any, PlannedBatch], Any]
"""Returns the DataFrame to write for a batch, or a list or tuple with one for each sink."""


@dataclass(slots=True)
class _BatchInProgress:
    """A batch that the runner is applying; `sink` is the sink that it reads or writes now."""

    plan: PlannedBatch
    name: str
    began: float
    sink: Sink | None = None

    def event_fields(self, sink: Sink) -> dict[str, Any]:
        """Return the fields that every event about the batch and a sink has."""
        return {
            "query": self.name,
            "run_id": self.plan.run_id,
            "batch_id": self.plan.batch_id,
            "sink": sink.label,
        }

    def target(self, sink: Sink) -> WriteTarget:
        """Return the WriteTarget that names `sink` and the query's ledger in that sink."""
        return WriteTarget(sink.label, LedgerKey(sink.key, self.name))


@dataclass(frozen=True, slots=True)
class _SinkTask:
    """The judgement of a batch for one sink; `index` is the sink's place in the list of sinks."""

    index: int
    sink: Sink
    judgement: Judgement
    state_lost: bool  # the sink has batches of another checkpoint, whose state this query lacks


class BatchRunner:
    """Applies the batches of one query to its sinks, exactly once. Only one thread may use it.

    `name` is the query's name in the ledgers, by default its name in Spark. Raises SettingsError
    for an invalid argument.
    """

    def __init__(
        self,
        plans: PlanReader,
        sinks: Sequence[Sink],
        frames: Frames,
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
        require_one_of("on_gap", on_gap, ("fail", "accept"))
        require_one_of("on_first", on_first, ("fail", "accept"))
        require_one_of("on_recreated", on_recreated, ("fail", "restart"))
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
        self._writers = tuple(object() for _ in sinks)  # each represents a sink in `process`
        # By sink key, the last run in which `moved_by` was called.
        self._runs_of_moved_by: dict[str, str] = {}
        # The run and the batch of the last call of `run` that returned.
        self._returned: tuple[str, int] | None = None

    def run(self, frame: Any, batch_id: int) -> None:
        """Write a batch to every sink that lacks it; `frame` is the DataFrame of foreachBatch.

        Returns when the batch is durable in all sinks. After that, a second call with the same
        batch in the same run raises SettingsError. After a call that failed, a second call is a
        retry. Raises the errors of `judge_batch`, the sinks, the plan reader and the transform.
        """
        began = time.monotonic()
        plan: PlannedBatch | None = None
        batch: _BatchInProgress | None = None
        try:
            plan = self._plans.plan(frame, batch_id)
            fault_point("batch.planned")
            batch = _BatchInProgress(plan, self._ledger(plan), began)
            if self._returned == (plan.run_id, plan.batch_id):
                refuse_second_call(plan)
            self._apply(frame, batch)
            self._returned = plan.run_id, plan.batch_id
        except Exception as error:  # also of the transform and of Spark: reported, and raised again
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
                cause="after a restart, the sink finds the query's ledger by this name",
                fix='Name the query, .queryName("flights"), or pass exactly_once(..., '
                'name="flights")',
            )
        return name

    def _apply(self, frame: Any, batch: _BatchInProgress) -> None:
        heads = [self._applied(sink, batch) for sink in self._sinks]
        refuse_shared_ledgers(self._sinks)  # again, as the keys are certain now
        restart = self._on_recreated == "restart"
        if restart and any(topic_was_recreated(batch.plan, sink_heads) for sink_heads in heads):
            # If this driver was suspended, its plan may be from before the topic was recreated, and
            # would put the old topic in the place of the new one. Kafka's answer now is no older
            # than any of the heads, and compare-and-set makes sure that they are still the same.
            batch.plan = self._plans.plan(frame, batch.plan.batch_id)
        plan = batch.plan
        judged = [self._judge(index, sink_heads, batch) for index, sink_heads in enumerate(heads)]
        batch.sink = None
        fault_point("batch.judged")
        due = [task for task in judged if task.judgement.entry.moves]
        # Spark loses a query's state if one of the query's batches was not run (SPARK-52008).
        discard = plan.stateful and not due
        if discard:
            self._frames.discard(frame)
        for task in due:
            if task.state_lost:
                self._observers.notify(QueryStateLost(**batch.event_fields(task.sink)))
        for task in judged:
            if task.judgement.verdict is BatchVerdict.REPLAY:
                fields = batch.event_fields(task.sink)
                self._observers.notify(BatchReplayed(**fields, discarded=discard))
        if due:
            with self._outputs(frame, plan, due) as (outputs, renew):
                for task in due:
                    if not self._write(task, outputs[task.index], batch, renew) and plan.stateful:
                        self._frames.discard(frame)

    def _applied(self, sink: Sink, batch: _BatchInProgress) -> Mapping[TopicPartition, Head]:
        batch.sink = sink
        heads = self._writer.read(sink, batch.name)
        self._process.add_name(batch.plan.run_id, LedgerKey(sink.key, batch.name))
        return heads

    def _other_heads(
        self, sink: Sink, heads: Mapping[TopicPartition, Head], batch: _BatchInProgress
    ) -> OtherHeads | None:
        """Return the heads that the query has under other names, or None if they were not read.

        The method reads these heads in the first batch of a run, because a name changes only with a
        restart, and later if a head is missing.
        """
        plan = batch.plan
        if self._runs_of_moved_by.get(sink.key) == plan.run_id and not is_unknown(plan, heads):
            return None
        moved = self._writer.ask(lambda: sink.moved_by(plan.query_id))
        self._runs_of_moved_by[sink.key] = plan.run_id
        names = self._process.names(plan.run_id)
        former = {key: of_key for key, of_key in moved.items() if key not in names}
        return OtherHeads(sink=sink.key, heads=former)

    def _judge(
        self, index: int, heads: Mapping[TopicPartition, Head], batch: _BatchInProgress
    ) -> _SinkTask:
        sink = batch.sink = self._sinks[index]
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
            ledger=SinkLedger(sink.key, place_of(sink)),
        )
        if judgement.replayed:
            # After a restart, a batch that was refused to a second writer is a replay for both.
            target, writer = batch.target(sink), self._writers[index]
            in_this_run = any(heads[tp].run_id == plan.run_id for tp in judgement.replayed)
            if not self._process.claim_replay(plan, target, writer, in_this_run=in_this_run):
                raise second_writer(plan, sink)
        # Once a sink has a batch of this checkpoint, one of its heads is of this query id.
        is_new = all(head.query_id != plan.query_id for head in heads.values())
        return _SinkTask(index, sink, judgement, plan.stateful and bool(heads) and is_new)

    def _write(
        self, task: _SinkTask, frame: Any, batch: _BatchInProgress, renew: Renew | None
    ) -> bool:
        """Write what a sink lacks of a batch; return False if another driver has written it all."""
        batch.sink = task.sink
        task, written = self._written(task, frame, batch, renew)
        if written is None:
            fields = batch.event_fields(task.sink)
            self._observers.notify(BatchReplayed(**fields, discarded=batch.plan.stateful))
            batch.sink = None
            return False
        fault_point("batch.applied")
        applied = written.applied
        self._observers.notify(
            BatchApplied(
                **batch.event_fields(task.sink),
                rows=None if applied is None else applied.rows,
                dead_letters=None if applied is None else applied.dead_letters,
                ranges={tp: move.range for tp, move in task.judgement.entry.moves.items()},
                replayed=task.judgement.replayed,
                gaps=task.judgement.gaps,
                skipped=task.judgement.skipped,
                attempts=written.attempts,
                seconds=time.monotonic() - batch.began,
                unexpected=applied.unexpected if applied else (),
            )
        )
        batch.sink = None
        return True

    def _written(
        self, task: _SinkTask, frame: Any, batch: _BatchInProgress, renew: Renew | None
    ) -> tuple[_SinkTask, Written | None]:
        """Write what a sink lacks of a batch; return None if another driver has written it all.

        With a transaction for each partition, two drivers may take turns. So the method repeats the
        attempt, as long as fewer partitions remain to be written each time.
        """
        least = None
        target, writer = batch.target(task.sink), self._writers[task.index]
        while task.judgement.entry.moves:
            is_new = self._process.begin_write(batch.plan, target, writer)
            try:
                written = self._writer.write(
                    task.sink, frame, task.judgement.entry, batch.plan, renew
                )
            except ForeignWriterError as foreign:
                if is_new and not (self._writer.doubtful or task.sink.per_partition):
                    self._process.end_write(batch.plan, target, None)
                task = self._again(task, batch, foreign)
                remaining = len(task.judgement.entry.moves)
                if least is not None and remaining >= least:
                    raise
                least = remaining
            else:
                self._process.end_write(batch.plan, target, writer)
                return task, written
        return task, None

    def _again(
        self, task: _SinkTask, batch: _BatchInProgress, foreign: ForeignWriterError
    ) -> _SinkTask:
        """Judge a batch again, because another driver has moved the ledger since it was read.

        A driver that was about to end may have written this very batch, and then the judgement is
        REPLAY. Raises `foreign` if a topic was recreated, or the guard refuses the batch.
        """
        heads = self._applied(task.sink, batch)
        if topic_was_recreated(batch.plan, heads):
            raise foreign  # the plan may be older than the ledger
        try:
            return self._judge(task.index, heads, batch)
        except GuardError as error:
            raise foreign from error

    @contextmanager
    def _outputs(
        self, frame: Any, plan: PlannedBatch, due: Sequence[_SinkTask]
    ) -> Iterator[tuple[Sequence[Any], Renew | None]]:
        """Yield a frame for each sink, and a function that computes a precomputed frame again.

        The function is None unless exactly one sink lacks the batch and the sink's frame was
        precomputed.

        If several sinks lack the batch, the method computes all rows before the first sink writes,
        because a frame may read a table that an earlier sink writes. It also precomputes rows that
        come from a shuffle, because Spark may compute a part of them twice.
        """
        outputs = frame if self._transform is None else self._transform(frame, plan)
        several = isinstance(outputs, list | tuple)
        self._check_outputs(outputs if several else [outputs], several=several)
        outputs = list(outputs) if several else [outputs] * len(self._sinks)
        needed = {id(outputs[task.index]): outputs[task.index] for task in due}
        if len(due) == 1 and not self._frames.has_shuffle(outputs[due[0].index]):
            yield outputs, None
            return
        with ExitStack() as computed, ExitStack() as inputs:

            def compute(output: Any) -> Any:
                return computed.enter_context(self._frames.computed(output, frame, plan))

            def renew() -> Any:
                computed.close()
                return compute(outputs[due[0].index])

            if len(needed) > 1:
                inputs.enter_context(self._frames.cached(frame))
            rows = {key: compute(output) for key, output in needed.items()}
            inputs.close()
            ready = [rows.get(id(output), output) for output in outputs]
            yield ready, renew if len(due) == 1 else None

    def _check_outputs(self, outputs: Sequence[Any], *, several: bool) -> None:
        """Raise SettingsError unless the transform returned one DataFrame for each sink."""
        wrong = [type(output).__name__ for output in outputs if not self._frames.is_frame(output)]
        if not wrong and (not several or len(outputs) == len(self._sinks)):
            return
        description = f"{len(outputs)} results" if several else type(outputs[0]).__name__
        if several and wrong:
            description += f", {wrong[0]} among them,"
        raise SettingsError(
            f"the transform returned {description} for {len(self._sinks)} sinks",
            fix="Return one Spark DataFrame for all sinks, or a list with one for each",
        )


def batch_failed(
    error: Exception, *, query: str, run_id: str, batch_id: int, sink: str | None
) -> BatchFailed:
    """Return the event of a failed batch.

    The event leaves out the texts of errors that do not come from eo_listener, because these texts
    may hold secrets.
    """
    own = error if isinstance(error, EoListenerError) else None
    return BatchFailed(
        query=query,
        run_id=run_id,
        batch_id=batch_id,
        sink=sink,
        error=type(error).__name__,
        problem=own.problem if own else "the transform or Spark failed, not eo_listener",
        cause=own.cause if own else None,
        fix=own.fix
        if own
        else "Read the query's own error, query.exception(), or the driver's log",
    )


def from_the_beginning(
    plans: PlanReader, plan: PlannedBatch, heads: Mapping[TopicPartition, Head]
) -> PlannedBatch:
    """Return a plan in which `continued` lacks the partitions of which no batch has read a record.

    The ledger may lack such partitions, because the user's function may have returned without
    calling exactly_once while its batches were empty. If the offsets at which the query began
    cannot be read, the function returns the plan unchanged.
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
