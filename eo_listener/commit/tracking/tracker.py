"""Judges the events and positions of live queries, and offers their offsets to the committer.

This module has no thread and no clock: `TrackerThread`, or the model in the tests, provides both.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from eo_listener.commit.groups.cluster_state import DueTimes
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.tracking.event_buffer import RUNS_KEPT, BufferedEvents, RunEvents
from eo_listener.commit.tracking.query_run import UNKNOWN_MODE, QueryRun, RunReporter
from eo_listener.commit.tracking.routing import GroupRouting, RoutedOffsets
from eo_listener.commit.tracking.sequence_guard import GuardMode, judge
from eo_listener.commit.tracking.shared_partitions import SharedPartitions
from eo_listener.errors import JvmError
from eo_listener.events import (
    Event,
    InternalError,
    Observers,
    OptionsRead,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryModeDetected,
    QueryReported,
    Violation,
    ViolationKind,
)
from eo_listener.model.fault_points import fault_point
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import LivePosition, QueryMode, QueryReader


class RunOrder:
    """The order of each query's runs: the newest run, and the runs that have ended.

    `runs` are the tracked runs. Events may come late, after a newer run has begun or their own run
    has ended. Not thread-safe.
    """

    def __init__(self, runs: Mapping[str, QueryRun]) -> None:
        self._runs = runs
        self._newest: dict[str, str] = {}  # by query
        # Ended runs, each with its last batch.
        self._ended_runs: OrderedDict[str, int] = OrderedDict()

    def newest(self, query_id: str) -> QueryRun | None:
        """Return the newest run of a query, or None if that run is not tracked."""
        return self._runs.get(self._newest.get(query_id, ""))

    def is_newest(self, run: QueryRun) -> bool:
        """Return True if no later run of the same query is known.

        Spark lets only one run of a query be active, so an earlier run has ended. Spark may drop
        the earlier run's end event when its bus is full; then that run's offsets would hold up the
        newer run forever.
        """
        return self._newest.get(run.query_id, run.run_id) == run.run_id

    def has_ended(self, run_id: str) -> bool:
        """Return True if a run has ended and the tracker has forgotten it."""
        return run_id in self._ended_runs

    def set_newest(self, query_id: str, run_id: str) -> None:
        """Make this run the newest of its query."""
        self._newest[query_id] = run_id
        self._ended_runs.pop(run_id, None)

    def becomes_newest(self, progress: Progress) -> bool:
        """Return True if this event makes its run the newest run of the query.

        The event must have a higher batch id than the newest run. If the newest run has had no
        event, any run that the tracker does not know replaces it.
        """
        run_id = progress.run_id
        newest = self.newest(progress.query_id)
        if newest is None:
            return progress.batch_id > self._ended_runs.get(run_id, -1)
        if newest.newest is None:
            return run_id not in self._runs and run_id not in self._ended_runs
        return newest.run_id != run_id and progress.batch_id > newest.newest.batch_id

    def end(self, run_id: str, run: QueryRun | None) -> None:
        """Record that a run has ended, so that late events do not bring it back."""
        self._ended_runs[run_id] = -1 if run is None else run.last_batch
        while len(self._ended_runs) > RUNS_KEPT:
            self._ended_runs.popitem(last=False)

    def drop(self, run: QueryRun) -> None:
        """Forget a run that no longer exists."""
        if self._newest.get(run.query_id) == run.run_id:
            del self._newest[run.query_id]


_UNANSWERED = 12  # checks in a row: a minute if the group follows the checkpoint
_OPTIONS_ATTEMPTS = 4  # seven seconds; a failure that is over by then is not reported
_FIRST_CHECK = 0.1  # seconds after a run's start
_SOON = 1.0  # seconds after an event, if the group follows the checkpoint

logger = logging.getLogger("eo_listener")


@dataclass(frozen=True, slots=True)
class Moment:
    """The same moment on two clocks: the monotonic clock, and seconds since the epoch."""

    now: float
    wall: float

    def monotonic(self, wall: float) -> float:
        """Convert a time since the epoch to the monotonic clock."""
        return wall + (self.now - self.wall)


class QueryTracker:
    """Handles buffered events and checks live queries. Only one thread may use it.

    The tracker also reads the durable offsets of a query from the query itself: when the query
    starts (an event may have been lost with the last driver), when it ends, and every
    `recommit_interval` seconds, so that all offsets are committed again before they can expire.
    """

    def __init__(
        self,
        routing: GroupRouting,
        queries: QueryReader,
        committer: Committer,
        observers: Observers,
        *,
        guard: GuardMode,
        recommit_interval: float,
    ) -> None:
        self._routing = routing
        self._queries = queries
        self._committer = committer
        self._observers = observers
        self._guard = RunGuard(guard, committer, observers)
        self._recommit_interval = recommit_interval
        self._runs: OrderedDict[str, QueryRun] = OrderedDict()
        self._order = RunOrder(self._runs)
        self._due_times = DueTimes()
        self._shared = SharedPartitions()
        self._reporter = RunReporter()
        self._faulty: set[str] = set()
        self._left_out: set[str] = set()  # queries with offsets that reach no group
        self._reported_repeated = False
        self.unserved: tuple[Progress, ...] = ()

    @property
    def complete(self) -> bool:
        """True if the tracker has offered all durable offsets.

        It has not done so if its last work for a query ended with an internal error, if a setting
        or the JVM keeps a query's offsets from their group, or if a slower run holds up another
        run.
        """
        return not (self._faulty or self._left_out or self._shared.holds_up)

    def due(self) -> float | None:
        """Return when the next check of any query is due (monotonic clock), or None."""
        return min(self._due_times.times(self._next_check).values(), default=None)

    def _next_check(self, run_id: str) -> float | None:
        run = self._runs.get(run_id)
        return None if run is None else run.next_check

    def serve(self, buffered: BufferedEvents, moment: Moment, *, check_all: bool = False) -> None:
        """Handle buffered events, then check the due queries, or all queries if `check_all`."""
        for started in buffered.started:
            if started.run_id not in self._runs and not self._order.has_ended(started.run_id):
                self._set_newest(started.query_id, started.run_id, moment.now)
                self._run_of(started.query_id, started.run_id, started.name, moment.now)
        # Runs that have ended come first, so that they no longer hold up later runs.
        last = [run for run in buffered.runs if run.newest.run_id in buffered.ended]
        rest = [run for run in buffered.runs if run.newest.run_id not in buffered.ended]
        self.unserved = tuple(events.newest for events in (*last, *rest))
        self._read_all(last, moment)
        for run_id in buffered.ended:
            self._end(run_id, moment.now)
        self._read_all(rest, moment)
        for run_id in buffered.idle:
            if (idle := self._runs.get(run_id)) is not None:
                self._report_alive(idle)
        self._report_event_errors(buffered)
        times = self._due_times.times(self._next_check).items()
        for run_id in [key for key, time in times if check_all or time <= moment.now]:
            run = self._runs[run_id]
            was_finished = run.finished
            if not was_finished:
                self._contained(run.query, partial(self._check, run, moment.now, last=check_all))
            if was_finished or (not run.ended and not self._order.is_newest(run)):
                self._end(run.run_id, moment.now)

    def _read_all(self, runs: Iterable[RunEvents], moment: Moment) -> None:
        for events in runs:
            self._contained(events.newest.query, partial(self._read, events, moment))
            self.unserved = self.unserved[1:]

    def _report_event_errors(self, buffered: BufferedEvents) -> None:
        """Emit an event for an unreadable event, and for the first event that came twice."""
        if buffered.unreadable is not None:
            self._observers.notify(
                InternalError(where="a progress event", problem=str(buffered.unreadable))
            )
        repeated = buffered.repeated
        if repeated is not None and not self._reported_repeated:
            self._reported_repeated = True
            self._observers.notify(
                ProgressEventsDuplicated(
                    query=repeated.query, run_id=repeated.run_id, batch_id=repeated.batch_id
                )
            )

    def _contained(self, query: str, work: Callable[[], None]) -> None:
        try:
            work()
            self._faulty.discard(query)
        except Exception as error:
            self._faulty.add(query)
            # An internal error: this thread must survive it, or no query is committed any longer.
            where, problem = f"query {query}", type(error).__name__
            logger.exception("eo_listener could not handle an event of %s", where)
            self._observers.notify(InternalError(where=where, problem=problem))

    def _run_of(self, query_id: str, run_id: str, name: str | None, now: float) -> QueryRun:
        run = self._runs.get(run_id)
        if run is None:
            run = QueryRun(query_id=query_id, run_id=run_id, name=name, due=now + _FIRST_CHECK)
            self._runs[run_id] = run
            while len(self._runs) > RUNS_KEPT:
                self._forget(*self._runs.popitem(last=False))
        self._due_times.mark_changed(run_id)
        return run

    def _set_newest(self, query_id: str, run_id: str, now: float) -> None:
        """Make this the newest run of its query."""
        earlier = self._order.newest(query_id)
        if earlier is not None:
            earlier.on_event(now)  # Spark may never report its end: see `is_newest`
            self._due_times.mark_changed(earlier.run_id)
        self._order.set_newest(query_id, run_id)

    def _end(self, run_id: str, now: float) -> None:
        run = self._runs.get(run_id)
        if run is not None and not run.finished:
            self._contained(run.query, partial(self._check, run, now, last=True))
        if run is None and self._order.has_ended(run_id):
            return  # Spark reported the end late, or twice
        self._runs.pop(run_id, None)
        self._order.end(run_id, run)
        self._forget(run_id, run)

    def _forget(self, run_id: str, run: QueryRun | None) -> None:
        self._due_times.mark_changed(run_id)
        if run is not None:
            self._order.drop(run)
        self._drop_shared(run_id)
        self._queries.forget(run_id)
        if run is not None:
            finished = self._reporter.ended(run.query, run_id)
            self._committer.retry_now(finished.groups)
            self._observers.notify(finished)

    def _drop_shared(self, run_id: str) -> None:
        """Offer the offsets of the runs that an ended run held up."""
        self._committer.end_run(run_id)
        for commit in self._shared.drop(run_id):
            self._committer.offer(commit)
        self._committer.set_used_clusters(self._shared.clusters)

    # Events

    def _read(self, events: RunEvents, moment: Moment) -> None:
        """Judge the events of one run, and offer the offsets of the run's newest event."""
        fault_point("router.before-route")
        progress = events.newest
        if self._order.becomes_newest(progress):
            self._set_newest(progress.query_id, progress.run_id, moment.now)
        elif self._order.has_ended(progress.run_id):
            return  # its offsets were offered when it ended
        run = self._run_of(progress.query_id, progress.run_id, progress.name, moment.now)
        offered = run.take(progress, moment.now)
        if progress.sources:
            self._read_options(run, moment.now)
        self._begin(run, events.first or progress)
        for event in (*events.earlier, progress):
            run.add_partitions(event)
        routed = self._routing.route(progress, run.options, run.unread)
        self._guard.judge(run, events, routed, moment.monotonic)
        if run.follows_checkpoint:
            run.due = min(run.due, moment.now + _SOON)
        elif offered:
            self._offer(run, routed, moment.now, recommit=False)
        self._report_alive(run)
        if progress.sources:
            self._observers.notify(self._reporter.progressed(progress, routed))

    # The query itself

    def _check(self, run: QueryRun, now: float, *, last: bool) -> None:
        """Ask the live query for its position, and offer its durable offsets.

        If the position is ahead of the newest event, the guard has not judged its batch yet. Then
        the position waits for the event, except at the `last` check, before which all events were
        delivered.

        An ended run no longer feeds any group. The tracker keeps the run until the next check,
        because its last events may still come. (Spark does not report the end of a query whose
        SparkContext ends.)
        """
        self._due_times.mark_changed(run.run_id)
        run.plan_check(now)
        ended, run.ended = self._has_ended(run), False
        position = self._position(run)
        # After the position: if there is a position, Spark has planned the sources, so it has their
        # options. If the options came first, Spark could plan the sources between the two.
        planned = position is not None or run.newest is not None
        self._read_options(run, now, planned=planned, last=last or ended)
        early = position is not None and not last and run.is_early(position)
        recommit = run.on_position(position, now, self._recommit_interval, early=early)
        if position is not None and not early:
            run.offered(position)
            durable = run.at(position) if position.committed or run.reads_no_kafka else None
        else:
            durable = run.furthest if recommit and not run.follows_checkpoint else None
        if durable is not None:
            self._begin(run, durable)
            routed = self._routing.route(durable, run.options, run.unread)
            self._offer(run, routed, now, recommit=recommit)
        run.ended = ended
        if ended and not early:
            run.finished = True
            run.last = position if run.options is not None else None
            run.plan_check(now)
            self._drop_shared(run.run_id)

    def _has_ended(self, run: QueryRun) -> bool:
        try:
            return self._queries.has_ended(run.query_id, run.run_id)
        except JvmError as error:
            logger.debug("cannot tell if query %s is running: %s", run.query, error)
            return False

    def _position(self, run: QueryRun) -> LivePosition | None:
        try:
            position = self._queries.position(run.query_id, run.run_id)
        except JvmError as error:
            logger.debug("cannot read the state of query %s: %s", run.query, error)
            run.unanswered += 1
            if run.follows_checkpoint:
                self._left_out.add(run.query)
            if run.follows_checkpoint and run.unanswered == _UNANSWERED:
                problem = (
                    f"its group stays where it is, since the query's state cannot be read: {error}"
                )
                self._observers.notify(InternalError(where=f"query {run.query}", problem=problem))
            return None
        run.unanswered = 0
        return position

    def _begin(self, run: QueryRun, first: Progress) -> None:
        """Ask the query once for its beginnings; `first` is the run's first known progress."""
        if run.beginnings is not None or not first.sources:
            return
        try:
            run.begin(self._queries.beginnings(run.query_id, run.run_id), first.batch_id)
        except JvmError as error:  # the next event tries again
            logger.debug("cannot read the beginnings of query %s: %s", run.query, error)

    def _read_options(
        self, run: QueryRun, now: float, *, planned: bool = True, last: bool = False
    ) -> None:
        """Read the run's execution mode and source options, unless they are known or not yet due.

        Spark knows them once it has `planned` the sources. A failure after that is reported if the
        next attempts fail too, or if this is the `last` attempt for now.
        """
        if run.options is not None or (now < run.options_due and not last):
            return
        try:
            run.mode = self._queries.mode(run.query_id, run.run_id)
            run.options = self._queries.options(run.query_id, run.run_id)
        except JvmError as error:
            logger.debug("query %s cannot be inspected: %s", run.query, error)
            if not planned:
                run.options_due = now + _SOON
                return
            run.on_unread(error, now)
            if not run.options_reported and (last or run.options_attempts >= _OPTIONS_ATTEMPTS):
                run.options_reported = True
                self._report_mode(run, "unknown execution mode", UNKNOWN_MODE)
                self._report_ignored(run)
            return
        self._report_alive(run)
        if run.unread is not None:
            run.on_late_options(now)
        if run.options_reported:
            run.reported = {key for key in run.reported if key[0] is None}
            self._observers.notify(OptionsRead(query=run.query, run_id=run.run_id))
        if run.options:
            self._report_mode(run, run.mode.value, run.mode_effect())

    def _report_mode(self, run: QueryRun, mode: str, effect: str | None) -> None:
        if effect is not None:
            self._observers.notify(
                QueryModeDetected(query=run.query, run_id=run.run_id, mode=mode, effect=effect)
            )

    def _report_alive(self, run: QueryRun) -> None:
        """Emit QueryReported, unless the query runs in continuous processing.

        Spark sends no events for a query in continuous processing.
        """
        if run.mode is not QueryMode.CONTINUOUS:
            self._observers.notify(QueryReported(query=run.query, run_id=run.run_id))

    # The groups

    def _offer(self, run: QueryRun, routed: RoutedOffsets, now: float, *, recommit: bool) -> None:
        allowed = routed.without(run.withheld)
        misconfigured = any(ignored.misconfigured for ignored in allowed.ignored)
        (self._left_out.add if misconfigured else self._left_out.discard)(run.query)
        run.ignored = allowed.ignored
        self._report_ignored(run)
        for overlap in allowed.shared:
            self._report_once(run, (None, overlap.group), overlap)
        for index, parts in allowed.sources.items():
            self._pass_on(run, index, parts)
        commits = allowed.commits
        groups_changed = self._reporter.fed(run.query, run.run_id, commits)
        if groups_changed is not None:
            self._observers.notify(groups_changed)
        for commit in commits:
            new = not self._shared.feeds(run.run_id, commit)
            lowest, shared = self._shared.lowest(run.run_id, run.query, commit)
            for rival in self._shared.rivals(run.run_id, commit):
                self._runs[rival].check_soon(now, at_once=new)
                self._due_times.mark_changed(rival)
            if shared is not None:
                self._observers.notify(shared)
            self._committer.offer(lowest, recommit=recommit)
        if recommit:
            # The guard's marks must not expire either, and new partitions of a withheld source need
            # marks.
            for commit in routed.only(run.withheld).commits:
                self._committer.withhold(commit, recommit=True)

    def _report_ignored(self, run: QueryRun) -> None:
        for ignored in run.ignored:
            if run.options_reported or not ignored.retried:
                self._report_once(run, (ignored.source, ignored.problem), ignored)

    def _pass_on(self, run: QueryRun, source: int, parts: Iterable[GroupOffsets]) -> None:
        """Give the committer the new beginnings of a source, before the offsets of its parts."""
        beginnings = (run.beginnings or {}).pop(source, {})
        for part in parts if beginnings else ():
            self._committer.add_beginnings(part, beginnings)

    def _report_once(self, run: QueryRun, key: tuple[int | None, str], event: Event) -> None:
        if key not in run.reported:
            run.reported.add(key)
            self._observers.notify(event)


class RunGuard:
    """Judges the events of a run before their offsets are offered. Not thread-safe."""

    def __init__(self, mode: GuardMode, committer: Committer, observers: Observers) -> None:
        self._mode = mode
        self._committer = committer
        self._observers = observers

    def judge(
        self,
        run: QueryRun,
        events: RunEvents,
        routed: RoutedOffsets,
        monotonic: Callable[[float], float],
    ) -> None:
        """Report missed events and violations.

        If the guard's mode requires it, withhold the sources that have violations.

        `routed` has the newest event's offsets by group; `monotonic` converts the time of an event
        to the monotonic clock.
        """
        for after, before in events.missed:
            self._observers.notify(
                ProgressEventsMissed(
                    query=run.query, run_id=run.run_id, after_batch=after, before_batch=before
                )
            )
        wrong = list(events.wrong)
        if events.first is not None:
            first = events.first
            wrong += [(first.batch_id, *item) for item in run.judge_first(first).items()]
        for event in (*events.earlier, events.newest):
            if event.planned is not None:
                losses = self._losses(event, routed, monotonic(event.planned))
                wrong += [(event.batch_id, *item) for item in losses.items()]
        for batch_id, source, violations in wrong:
            self._violated(run, routed, batch_id, source, violations)

    def _losses(
        self, progress: Progress, routed: RoutedOffsets, planned: float
    ) -> dict[int, tuple[Violation, ...]]:
        """Return the records that Kafka had deleted before a batch could read them, by source."""
        losses: dict[int, tuple[Violation, ...]] = {}
        for source in progress.sources:
            starts = {
                tp: start
                for part in routed.sources.get(source.index, ())
                if part.lossy
                for tp, start in self._committer.log_starts(part, planned).items()
            }
            if starts and source.end is not None and source.start is not None:
                violations = judge(source.start, source.start, source.end, starts)
                lost = [loss for loss in violations if loss.kind is ViolationKind.LOST]
                losses |= {source.index: tuple(lost)} if lost else {}
        return losses

    def _violated(
        self,
        run: QueryRun,
        routed: RoutedOffsets,
        batch_id: int,
        source: int,
        violations: tuple[Violation, ...],
    ) -> None:
        withheld = self._mode is GuardMode.WITHHOLD
        if withheld and source not in run.withheld:
            run.withheld.add(source)
            for part in routed.sources.get(source, ()):
                self._committer.withhold(part)
        event = run.violated(source, batch_id)
        self._observers.notify(replace(event, violations=violations, withheld=withheld))
