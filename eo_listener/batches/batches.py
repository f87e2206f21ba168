"""One batch: plan it, judge it for each sink, write what is missing, and tell."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eo_listener.batches.frames import Frames
from eo_listener.batches.retry import Retry
from eo_listener.batches.writer import Writer
from eo_listener.errors import EoListenerError, SettingsError
from eo_listener.events import BatchApplied, BatchHalted, BatchReplayed, Event, Observer
from eo_listener.fault_points import reached
from eo_listener.guard import Judgement, OnGap, judge_batch
from eo_listener.ledger import Verdict
from eo_listener.plan import Plan
from eo_listener.protocols import PlanReader, Sink

Transform = Callable[[Any, Plan], Any]
"""Makes of a batch's DataFrame the one to write, or a list or tuple of them, one a sink."""

logger = logging.getLogger("eo_listener")


@dataclass(slots=True)
class _Course:
    """A batch on its way; `sink` is the one it is with now."""

    plan: Plan
    name: str
    began: float
    sink: Sink | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    """What one sink lacks; `place` is its place among the sinks."""

    place: int
    sink: Sink
    judgement: Judgement


class Batches:
    """Applies the batches of one query to its sinks, each exactly once. For the query's thread.

    `name` is what the ledgers are kept under, by default the query's name. Raises SettingsError
    for what can never work.
    """

    def __init__(
        self,
        plans: PlanReader,
        sinks: Sequence[Sink],
        frames: Frames,
        *,
        transform: Transform | None = None,
        name: str | None = None,
        on_gap: OnGap = "halt",
        observers: Iterable[Observer] = (),
        retry: Retry | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        _refuse(sinks, on_gap)
        self._plans = plans
        self._sinks = tuple(sinks)
        self._frames = frames
        self._transform = transform
        self._name = name
        self._on_gap = on_gap
        self._observers = tuple(observers)
        self._writer = Writer(retry or Retry(), sleep)

    def run(self, frame: Any, batch_id: int) -> None:
        """Bring a batch into every sink that lacks it; `frame` is what foreachBatch was given.

        Returns when all of it is durable in all of them. Raises what `judge_batch`, the sinks,
        the plan reader and the transform raise.
        """
        began = time.monotonic()
        plan = self._plans.plan(frame, batch_id)
        reached("batch.planned")
        course = _Course(plan, self._ledger(plan), began)
        try:
            self._bring(frame, course)
        except EoListenerError as error:
            self._tell(_halted(course, error))
            raise

    def _ledger(self, plan: Plan) -> str:
        name = self._name or plan.query
        if not name:
            raise SettingsError(
                "the query has no name, and the ledger needs one that never changes",
                cause="without one nobody could tell after a restart which rows are whose",
                fix='Name the query, .queryName("flights"), or say exactly_once(..., '
                'name="flights")',
            )
        return name

    def _bring(self, frame: Any, course: _Course) -> None:
        plan = course.plan
        judged = [
            _Due(place, sink, self._judge(sink, course)) for place, sink in enumerate(self._sinks)
        ]
        course.sink = None
        reached("batch.judged")
        due = [one for one in judged if one.judgement.entry.moves]
        # A query's state is lost to Spark where a batch of it was not run (SPARK-52008).
        discard = plan.stateful and not due
        if discard:
            self._frames.discard(frame)
        for one in judged:
            if one.judgement.verdict is Verdict.REPLAY:
                self._tell(_replayed(course, one.sink, discarded=discard))
        if due:
            with self._made(frame, plan, due) as made:
                for one in due:
                    self._write(one, made[one.place], course)

    def _judge(self, sink: Sink, course: _Course) -> Judgement:
        course.sink = sink
        return judge_batch(
            course.plan,
            sink.applied(course.name),
            name=course.name,
            sink=sink.label,
            on_gap=self._on_gap,
            per_partition=sink.per_partition,
        )

    def _write(self, due: _Due, frame: Any, course: _Course) -> None:
        course.sink = due.sink
        written = self._writer.write(due.sink, frame, due.judgement.entry, course.plan)
        reached("batch.applied")
        self._tell(
            BatchApplied(
                query=course.name,
                run_id=course.plan.run_id,
                batch_id=course.plan.batch_id,
                sink=due.sink.label,
                rows=None if written.applied is None else written.applied.rows,
                dead=None if written.applied is None else written.applied.dead,
                replayed=due.judgement.replayed,
                holes=due.judgement.holes,
                attempts=written.attempts,
                seconds=time.monotonic() - course.began,
            )
        )
        course.sink = None

    @contextmanager
    def _made(self, frame: Any, plan: Plan, due: Sequence[_Due]) -> Iterator[Sequence[Any]]:
        """The frames to write, one a sink; computed once where several sinks need them."""
        made = frame if self._transform is None else self._transform(frame, plan)
        several = isinstance(made, list | tuple)
        if made is None or (several and len(made) != len(self._sinks)):
            given = f"{len(made)} results" if several else "None"
            raise SettingsError(
                f"the transform returned {given} for {len(self._sinks)} sinks",
                fix="Return one DataFrame for all of them, or a list with one for each",
            )
        if len(due) == 1:
            yield made if several else [made] * len(self._sinks)
            return
        held = self._frames.hold(frame if several else made)
        try:
            yield made if several else [held] * len(self._sinks)
        finally:
            self._frames.release(held)

    def _tell(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer(event)
            except (Exception, SystemExit):  # a stranger's code: it must not fail the batch
                logger.exception("an observer of eo_listener failed on %s", type(event).__name__)


def _refuse(sinks: Sequence[Sink], on_gap: str) -> None:
    if not sinks:
        raise SettingsError("exactly_once was given no sink", fix="Name at least one")
    if on_gap not in ("halt", "accept"):
        raise SettingsError(
            f"on_gap={on_gap!r} is neither of what it can be", fix='Use "halt" or "accept"'
        )
    named = [(sink.label, sink.key) for sink in sinks]
    for label, _ in {one for one in named if named.count(one) > 1}:
        raise SettingsError(
            f"{label} is named twice among the sinks",
            cause="both would share one ledger, and the second would take each batch for applied",
            fix="Name it once; to write two tables in one transaction, use apply=",
        )


def _replayed(course: _Course, sink: Sink, *, discarded: bool) -> BatchReplayed:
    return BatchReplayed(
        query=course.name,
        run_id=course.plan.run_id,
        batch_id=course.plan.batch_id,
        sink=sink.label,
        discarded=discarded,
    )


def _halted(course: _Course, error: EoListenerError) -> BatchHalted:
    return BatchHalted(
        query=course.name,
        run_id=course.plan.run_id,
        batch_id=course.plan.batch_id,
        sink=None if course.sink is None else course.sink.label,
        error=type(error).__name__,
        problem=error.problem,
        cause=error.cause,
        fix=error.fix,
    )
