"""What becomes of events and of live queries: judged, given a place to go, and offered.

No thread and no clock of its own: the router brings both, and so does a model.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.due_times import DueTimes
from eo_listener.commit.tracking.event_buffer import RUNS_KEPT, BufferedEvents, RunEvents
from eo_listener.commit.tracking.query_run import UNKNOWN_MODE, QueryRun, RunReporter
from eo_listener.commit.tracking.routing import GroupRouting, RoutedOffsets, skips_losses
from eo_listener.commit.tracking.run_order import RunOrder
from eo_listener.commit.tracking.sequence_guard import GuardMode, judge
from eo_listener.commit.tracking.shared_partitions import SharedPartitions
from eo_listener.model.errors import JvmError
from eo_listener.model.events import (
    Event,
    GuardViolation,
    InternalError,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryModeDetected,
    Violation,
    ViolationKind,
)
from eo_listener.model.fault_points import reached
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import LivePosition, QueryReader

_UNANSWERED = 12  # a minute, for a query whose checkpoint is followed
_INSPECTIONS = 3  # a query that cannot be inspected three times in a row will not be the fourth
_FIRST_LOOK = 0.1
_SOON = 1.0

logger = logging.getLogger("eo_listener")


@dataclass(frozen=True, slots=True)
class Moment:
    """One time by two clocks: the monotonic one, and seconds since the epoch."""

    now: float
    wall: float


class QueryTracker:
    """Serves what the inbox brings. Not thread-safe: one thread calls all of it.

    What a query has made durable is also read from the query itself: when it starts (an event may
    have been lost with the last driver), when it ends, and every `recommit_interval` seconds, so
    that all of its offsets are committed again before they can expire.
    """

    def __init__(
        self,
        rules: GroupRouting,
        queries: QueryReader,
        committer: Committer,
        *,
        guard: GuardMode,
        recommit_interval: float,
    ) -> None:
        self._rules = rules
        self._queries = queries
        self._committer = committer
        self._guard = guard
        self._recommit_interval = recommit_interval
        self._runs: OrderedDict[str, QueryRun] = OrderedDict()
        self._succession = RunOrder(self._runs)
        self._due_times = DueTimes()
        self._claims = SharedPartitions()
        self._reporter = RunReporter(rules)
        self._faulty: set[str] = set()
        self._told_repeated = False
        self.unserved: tuple[Progress, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether what was served last could be, for every query."""
        return not self._faulty

    def due(self) -> float | None:
        """When a query is to be looked at next, on the monotonic clock."""
        return min(self._due_times.times(self._next_look).values(), default=None)

    def _next_look(self, run_id: str) -> float | None:
        run = self._runs.get(run_id)
        return None if run is None else run.next_look

    def serve(self, post: BufferedEvents, moment: Moment, *, look_at_all: bool = False) -> None:
        """Work off what came in, and look at the queries whose time has come."""
        for started in post.started:
            if started.run_id not in self._runs and not self._succession.is_gone(started.run_id):
                self._precede(started.query_id, started.run_id, moment.now)
                self._run_of(started.query_id, started.run_id, started.name, moment.now)
        # Runs that have ended first, and their ends: they hold up what has begun since no more.
        last = tuple(mail for mail in post.mails if mail.newest.run_id in post.ended)
        rest = tuple(mail for mail in post.mails if mail.newest.run_id not in post.ended)
        self.unserved = tuple(mail.newest for mail in (*last, *rest))
        self._read_all(last, moment)
        for run_id in post.ended:
            self._end(run_id, moment.now)
        self._read_all(rest, moment)
        self._tell_of(post)
        looks = self._due_times.times(self._next_look).items()
        for run_id in [one for one, time in looks if look_at_all or time <= moment.now]:
            run = self._runs[run_id]
            was_over = run.over
            if not was_over:
                self._contained(run.query, partial(self._look, run, moment.now, last=look_at_all))
            if was_over or (not run.ended and not self._succession.is_newest(run)):
                self._end(run.run_id, moment.now)

    def _read_all(self, mails: Iterable[RunEvents], moment: Moment) -> None:
        for mail in mails:
            self._contained(mail.newest.query, partial(self._read, mail, moment))
            self.unserved = self.unserved[1:]

    def _tell_of(self, post: BufferedEvents) -> None:
        """Say what was wrong with the events themselves."""
        if post.unreadable is not None:
            self._committer.observe(
                InternalError(where="a progress event", problem=str(post.unreadable))
            )
        again = post.repeated
        if again is not None and not self._told_repeated:
            self._told_repeated = True
            self._committer.observe(
                ProgressEventsDuplicated(
                    query=again.query, run_id=again.run_id, batch_id=again.batch_id
                )
            )

    def _contained(self, query: str, work: Callable[[], None]) -> None:
        try:
            work()
            self._faulty.discard(query)
        except Exception as error:
            self._faulty.add(query)
            # A fault of ours: this thread must outlive it, or every query goes uncommitted.
            logger.exception("eo_listener could not handle an event of query %s", query)
            self._committer.observe(
                InternalError(where=f"query {query}", problem=type(error).__name__)
            )

    def _run_of(self, query_id: str, run_id: str, name: str | None, now: float) -> QueryRun:
        run = self._runs.get(run_id)
        if run is None:
            run = QueryRun(query_id=query_id, run_id=run_id, name=name, due=now + _FIRST_LOOK)
            self._runs[run_id] = run
            while len(self._runs) > RUNS_KEPT:
                self._forget(*self._runs.popitem(last=False))
        self._due_times.mark_changed(run_id)
        return run

    def _precede(self, query_id: str, run_id: str, now: float) -> None:
        """From now on this is the newest run of its query."""
        earlier = self._succession.newest(query_id)
        if earlier is not None:
            earlier.heard(now)  # its end may never be told: see `is_newest`
            self._due_times.mark_changed(earlier.run_id)
        self._succession.precede(query_id, run_id)

    def _end(self, run_id: str, now: float) -> None:
        run = self._runs.get(run_id)
        if run is not None and not run.over:
            self._contained(run.query, partial(self._look, run, now, last=True))
        if run is None and self._succession.is_gone(run_id):
            return  # Spark has told of it at last, or twice
        self._runs.pop(run_id, None)
        self._succession.end(run_id, run)
        self._forget(run_id, run)

    def _forget(self, run_id: str, run: QueryRun | None) -> None:
        self._due_times.mark_changed(run_id)
        if run is not None:
            self._succession.drop(run)
        self._let_go(run_id)
        self._queries.forget(run_id)
        if run is not None:
            over = self._reporter.ended(run.query, run_id)
            self._committer.retry_now(over.groups)
            self._committer.observe(over)

    def _let_go(self, run_id: str) -> None:
        """Let the others that feed its partitions go on without it."""
        for commit in self._claims.drop(run_id):
            self._committer.offer(commit)
        self._committer.feed(self._claims.clusters)

    # Events

    def _read(self, mail: RunEvents, moment: Moment) -> None:
        """Judge and offer what the events of one run say."""
        reached("router.before-route")
        progress = mail.newest
        if self._succession.is_next(progress):
            self._precede(progress.query_id, progress.run_id, moment.now)
        elif self._succession.is_gone(progress.run_id):
            return  # all that it has reached was offered when it ended
        run = self._run_of(progress.query_id, progress.run_id, progress.name, moment.now)
        offered = run.take(progress, moment.now)
        if progress.sources:
            self._inspect(run)
        if self._guard is not GuardMode.OFF:
            self._judge(run, mail, moment)
        if run.follows_checkpoint:
            run.due = min(run.due, moment.now + _SOON)
        elif offered:
            self._offer(run, progress, moment.now, renew=False)
        if progress.sources:
            self._committer.observe(self._reporter.progressed(progress, run.options))

    def _judge(self, run: QueryRun, mail: RunEvents, moment: Moment) -> None:
        for after, before in mail.missed:
            self._committer.observe(
                ProgressEventsMissed(
                    query=run.query, run_id=run.run_id, after_batch=after, before_batch=before
                )
            )
        wrong = list(mail.wrong)
        if mail.first is not None:
            first = mail.first
            found = run.judge_first(first).items()
            wrong += [(first.batch_id, source, violations) for source, violations in found]
        wrong += self._losses(run, mail.newest, moment)
        for batch_id, source, violations in wrong:
            self._violated(run, mail.newest, batch_id, source, violations)

    def _losses(
        self, run: QueryRun, progress: Progress, moment: Moment
    ) -> list[tuple[int, int, tuple[Violation, ...]]]:
        """Records that Kafka had deleted before the newest batch could read them."""
        if progress.planned is None:
            return []
        planned = moment.now - (moment.wall - progress.planned)
        wrong = []
        for source in progress.sources:
            if not skips_losses((run.options or {}).get(source.index)):
                continue
            starts = {
                tp: start
                for commit in self._route(run, progress.only([source.index])).commits
                for tp, start in self._committer.log_starts(commit, planned).items()
            }
            if starts and source.end is not None and source.start is not None:
                violations = judge(source.start, source.start, source.end, starts)
                losses = tuple(one for one in violations if one.kind is ViolationKind.LOST)
                if losses:
                    wrong.append((progress.batch_id, source.index, losses))
        return wrong

    def _violated(
        self,
        run: QueryRun,
        progress: Progress,
        batch_id: int,
        source: int,
        violations: tuple[Violation, ...],
    ) -> None:
        withheld = self._guard is GuardMode.WITHHOLD
        if withheld and source not in run.withheld:
            run.withheld.add(source)
            for commit in self._route(run, progress.only([source])).commits:
                self._committer.withhold(commit)
        self._committer.observe(
            GuardViolation(
                query=run.query,
                run_id=run.run_id,
                batch_id=batch_id,
                source=source,
                violations=violations,
                withheld=withheld,
            )
        )

    # The query itself

    def _look(self, run: QueryRun, now: float, *, last: bool) -> None:
        """Offer what a query has made durable by its own word.

        That may be ahead of the newest event, which the guard has not seen then: so its time is
        waited for, but for the `last` look, before which all events were delivered.

        A run that says that it has ended feeds no group any more. It is kept until the next look,
        as its last events may be on their way; with a SparkContext its end goes untold.
        """
        self._due_times.mark_changed(run.run_id)
        run.asked(now)
        self._inspect(run)
        ended, run.ended = self._has_ended(run), False
        position = self._position(run)
        early = position is not None and not last and run.is_early(position)
        renew = run.looked(position, now, self._recommit_interval, early=early)
        if position is not None and not early:
            run.offered(position)
            self._offer(run, run.at(position), now, renew=renew)
        elif renew and run.furthest is not None and not run.follows_checkpoint:
            self._offer(run, run.furthest, now, renew=True)
        run.ended = ended
        if ended and not early:
            run.over = True
            run.asked(now)
            self._let_go(run.run_id)

    def _has_ended(self, run: QueryRun) -> bool:
        try:
            return self._queries.has_ended(run.query_id, run.run_id)
        except JvmError as error:
            logger.debug("query %s cannot be asked whether it runs: %s", run.query, error)
            return False

    def _position(self, run: QueryRun) -> LivePosition | None:
        try:
            position = self._queries.position(run.query_id, run.run_id)
        except JvmError as error:
            logger.debug("query %s cannot be asked: %s", run.query, error)
            run.unanswered += 1
            if run.follows_checkpoint and run.unanswered == _UNANSWERED:
                problem = f"its group stays where it is, since the query cannot be asked: {error}"
                self._committer.observe(InternalError(where=f"query {run.query}", problem=problem))
            return None
        run.unanswered = 0
        return position

    def _inspect(self, run: QueryRun) -> None:
        """Read what does not change in a run, until it is known."""
        if run.options is not None or run.inspections >= _INSPECTIONS:
            return
        try:
            run.mode = self._queries.mode(run.query_id, run.run_id)
            run.options = self._queries.options(run.query_id, run.run_id)
        except JvmError as error:
            run.inspections += run.newest is not None  # before the first event it is too early
            logger.debug("query %s cannot be inspected: %s", run.query, error)
        known = run.options is not None
        if not known and run.inspections < _INSPECTIONS:
            return
        effect = run.meaning() if known else UNKNOWN_MODE
        if effect is not None and (run.options or not known):
            mode = "unknown execution mode"
            if known and run.mode is not None:
                mode = run.mode.value
            self._committer.observe(
                QueryModeDetected(query=run.query, run_id=run.run_id, mode=mode, effect=effect)
            )

    # Where to

    def _offer(self, run: QueryRun, progress: Progress, now: float, *, renew: bool) -> None:
        if not progress.sources and (run.newest is None or run.newest.sources):
            return  # nothing is durable yet; only an event can say that it reads nothing from Kafka
        kept = progress.without(run.withheld)
        if kept.sources or not progress.sources:
            self._offer_all(run, self._route(run, kept), now, renew=renew)
        if renew and run.withheld:
            self._renew_marks(self._route(run, progress.only(run.withheld)))

    def _offer_all(self, run: QueryRun, route: RoutedOffsets, now: float, *, renew: bool) -> None:
        for why in route.ignored:
            self._say_once(run, (why.source, why.problem), why)
        for overlap in route.shared:
            self._say_once(run, (None, overlap.group), overlap)
        news = self._reporter.fed(run.query, run.run_id, route.commits)
        if news is not None:
            self._committer.observe(news)
        for commit in route.commits:
            new = not self._claims.holds(run.run_id, commit)
            lowest, shared = self._claims.lowest(run.run_id, run.query, commit)
            for rival in self._claims.rivals(run.run_id, commit):
                self._runs[rival].doubt(now, at_once=new)
                self._due_times.mark_changed(rival)
            if shared is not None:
                self._committer.observe(shared)
            self._committer.offer(lowest, renew=renew)

    def _renew_marks(self, route: RoutedOffsets) -> None:
        """Keep from expiring what a withheld source stands at, in partitions it got since too."""
        for commit in route.commits:
            self._committer.withhold(commit)
            self._committer.offer(commit, renew=True)

    def _route(self, run: QueryRun, progress: Progress) -> RoutedOffsets:
        return self._rules.route(progress, run.options)

    def _say_once(self, run: QueryRun, key: tuple[int | None, str], event: Event) -> None:
        if key not in run.said:
            run.said.add(key)
            self._committer.observe(event)
