"""The thread between Spark's events and the committer: finds out where offsets go."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from eo_listener.committer.claims import Claims
from eo_listener.committer.committer import Committer
from eo_listener.committer.inbox import RUNS_KEPT, Inbox, Mail, Post, Started
from eo_listener.committer.runs import Run
from eo_listener.errors import FormatError, JvmError
from eo_listener.events import (
    Breach,
    Event,
    EventsMissed,
    Finding,
    GuardViolation,
    Malfunction,
    QueryNoticed,
)
from eo_listener.fault_points import reached
from eo_listener.guard import Guard, judge
from eo_listener.progress import Progress
from eo_listener.protocols import LivePosition, QueryReader
from eo_listener.routing import Route, Rules

_INSPECTIONS = 3  # a query that cannot be inspected three times in a row will not be the fourth
HEARTBEAT = 3600.0  # a small part of Kafka's default retention of 7 days

logger = logging.getLogger("eo_listener")


class Router:
    """Takes progress events over from Spark's thread, and offers their offsets for committing.

    What a query has made durable is also read from the query itself: when it starts (an event may
    have been lost with the last driver), when it ends, and every `heartbeat` seconds, so that the
    full map is committed again before it can expire.
    """

    def __init__(
        self,
        rules: Rules,
        queries: QueryReader,
        committer: Committer,
        *,
        guard: Guard = Guard.WITHHOLD,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._rules = rules
        self._queries = queries
        self._committer = committer
        self._guard = guard
        self._heartbeat = heartbeat
        self._changed = threading.Condition()
        self._inbox = Inbox()
        self._look_at_all = False
        self._busy = False
        self._stopping = False
        self._routing: Progress | None = None
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._claims = Claims()
        self._thread = threading.Thread(target=self._work, name="eo-listener-router", daemon=True)
        self._thread.start()

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        """Hand over that a run has begun; returns at once."""
        with self._changed:
            self._inbox.started(Started(query_id=query_id, run_id=run_id, name=name))
            self._changed.notify_all()

    def progressed(self, progress: Progress) -> None:
        """Hand an event over; returns at once. After `close` it is refused with a log line."""
        if progress.sources and not any(source.end for source in progress.sources):
            return
        with self._changed:
            late = self._stopping
            if not late:
                self._inbox.progressed(progress)
                self._changed.notify_all()
        if late:
            logger.warning(
                "query %s: batch %d came after the listener was closed and is not committed",
                progress.query,
                progress.batch_id,
            )

    def unreadable(self, error: FormatError) -> None:
        """Hand over that an event could not be read; returns at once."""
        with self._changed:
            self._inbox.unreadable(error)
            self._changed.notify_all()

    def ended(self, run_id: str) -> None:
        """Hand over that a run has ended: what waits for a retry is tried now. Returns at once."""
        with self._changed:
            self._inbox.ended(run_id)
            self._changed.notify_all()

    def flush(self, deadline: float) -> bool:
        """Wait until all that is durable is offered, or the monotonic clock passes `deadline`."""
        with self._changed:
            self._look_at_all = True
            self._changed.notify_all()
            while self._inbox or self._look_at_all or self._busy:
                left = deadline - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._changed.wait(left)
        return True

    def close(self, deadline: float) -> None:
        """Work off what waits, and stop the thread, until `deadline`; name what is left."""
        done = self.flush(deadline)
        with self._changed:
            self._stopping = True
            left = [*self._inbox.waiting(), *([self._routing] if self._routing else [])]
            self._changed.notify_all()
        self._thread.join(max(0.1, deadline - time.monotonic()))
        if not done:
            for progress in left:
                self._committer.observe(
                    Malfunction(
                        where=f"query {progress.query}",
                        problem=f"batch {progress.batch_id} is not committed: Spark did not say "
                        "in time which group the query has",
                    )
                )

    def _work(self) -> None:
        while True:
            post, look_at_all = self._wait()
            if post is None:
                return
            for started in post.started:
                self._run_of(started.query_id, started.run_id, started.name)
            for mail in post.mails:
                self._routing = mail.newest
                self._contained(mail.newest.query, partial(self._read, mail))
                self._routing = None
            if post.unreadable is not None:
                self._committer.observe(
                    Malfunction(where="a progress event", problem=str(post.unreadable))
                )
            self._look_at_due(look_at_all)
            for run_id in post.ended:
                self._end(run_id)
            if post.ended:
                self._committer.hurry()

    def _wait(self) -> tuple[Post | None, bool]:
        """Wait for something to do, and take it; nothing to stop."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._inbox or self._look_at_all or self._stopping):
                due = min((run.due for run in self._runs.values()), default=None)
                left = None if due is None else due - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            if self._stopping:
                return None, False
            self._busy = True
            look_at_all, self._look_at_all = self._look_at_all, False
            return self._inbox.take(), look_at_all

    def _contained(self, query: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # A fault of ours: this thread must outlive it, or every query goes uncommitted.
            logger.exception("eo_listener could not handle an event of query %s", query)
            self._committer.observe(
                Malfunction(where=f"query {query}", problem=type(error).__name__)
            )

    def _run_of(self, query_id: str, run_id: str, name: str | None) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            run = Run(query_id=query_id, run_id=run_id, name=name, due=time.monotonic() + 0.1)
            self._runs[run_id] = run
            while len(self._runs) > RUNS_KEPT:
                forgotten, _ = self._runs.popitem(last=False)
                self._forget(forgotten)
        return run

    def _end(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            self._contained(run.query, partial(self._look, run))
        self._runs.pop(run_id, None)
        self._forget(run_id)

    def _forget(self, run_id: str) -> None:
        self._claims.drop(run_id)
        self._queries.forget(run_id)

    # Events

    def _read(self, mail: Mail) -> None:
        """Judge and offer what the events of one run say."""
        reached("router.before-route")
        progress = mail.newest
        run = self._run_of(progress.query_id, progress.run_id, progress.name)
        run.newest = progress
        if progress.sources:
            self._inspect(run)
        if self._guard is not Guard.OFF:
            self._judge(run, mail)
        if run.follows_checkpoint:
            run.due = min(run.due, time.monotonic() + 1.0)
        else:
            self._offer(run, progress, renew=False)

    def _judge(self, run: Run, mail: Mail) -> None:
        for after, before in mail.missed:
            self._committer.observe(
                EventsMissed(
                    query=run.query, run_id=run.run_id, after_batch=after, before_batch=before
                )
            )
        wrong = list(mail.wrong)
        if mail.first is not None:
            first = mail.first
            found = run.judge_first(first).items()
            wrong += [(first.batch_id, source, findings) for source, findings in found]
        wrong += self._losses(run, mail.newest)
        for batch_id, source, findings in wrong:
            self._violated(run, mail.newest, batch_id, source, findings)

    def _losses(self, run: Run, progress: Progress) -> list[tuple[int, int, tuple[Finding, ...]]]:
        """Records that Kafka had deleted before the newest batch could read them."""
        if progress.planned is None:
            return []
        planned = time.monotonic() - (time.time() - progress.planned)
        wrong = []
        for source in progress.sources:
            only = progress.only([source.index])
            starts = {
                tp: start
                for commit in self._route(run, only).commits
                if commit.lossy
                for tp, (start, seen) in self._committer.log_starts(commit).items()
                if seen <= planned
            }
            if starts and source.end is not None and source.start is not None:
                findings = judge(source.start, source.start, source.end, starts)
                losses = tuple(one for one in findings if one.breach is Breach.LOST)
                if losses:
                    wrong.append((progress.batch_id, source.index, losses))
        return wrong

    def _violated(
        self,
        run: Run,
        progress: Progress,
        batch_id: int,
        source: int,
        findings: tuple[Finding, ...],
    ) -> None:
        withheld = self._guard is Guard.WITHHOLD
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
                findings=findings,
                withheld=withheld,
            )
        )

    # The query itself

    def _look_at_due(self, all_of_them: bool) -> None:
        now = time.monotonic()
        for run in tuple(self._runs.values()):
            if all_of_them or run.due <= now:
                self._contained(run.query, partial(self._look, run))

    def _look(self, run: Run) -> None:
        """Offer what a query has made durable by its own word."""
        self._inspect(run)
        position = self._position(run)
        renew = run.looked(position, time.monotonic(), self._heartbeat)
        if position is not None:
            self._offer(run, run.at(position), renew=renew)
        elif renew and run.newest is not None and not run.follows_checkpoint:
            self._offer(run, run.newest, renew=True)

    def _position(self, run: Run) -> LivePosition | None:
        try:
            return self._queries.position(run.query_id, run.run_id)
        except JvmError as error:
            logger.debug("query %s cannot be asked: %s", run.query, error)
            return None

    def _inspect(self, run: Run) -> None:
        """Read what does not change in a run, until it is known."""
        if run.options is not None or run.inspections >= _INSPECTIONS:
            return
        try:
            run.mode = self._queries.mode(run.query_id, run.run_id)
            run.options = self._queries.options(run.query_id, run.run_id)
        except JvmError as error:
            run.inspections += run.newest is not None  # before the first event it is too early
            logger.debug("query %s cannot be inspected: %s", run.query, error)
        meaning = run.meaning()
        if run.options and meaning is not None and run.mode is not None:
            self._committer.observe(
                QueryNoticed(
                    query=run.query, run_id=run.run_id, what=run.mode.value, meaning=meaning
                )
            )

    # Where to

    def _offer(self, run: Run, progress: Progress, *, renew: bool) -> None:
        if not progress.sources and run.newest is None:
            return  # before the first event it is not known that there are none
        kept = progress if renew else progress.without(run.withheld)
        if progress.sources and not kept.sources:
            return
        route = self._route(run, kept)
        for why in route.ignored:
            self._say_once(run, (why.source, why.problem), why)
        for overlap in route.shared:
            self._say_once(run, (None, overlap.group), overlap)
        for commit in route.commits:
            least, shared = self._claims.least(run.run_id, run.query, commit)
            if shared is not None:
                self._committer.observe(shared)
            self._committer.offer(least, renew=renew)

    def _route(self, run: Run, progress: Progress) -> Route:
        return self._rules.route(progress, run.options)

    def _say_once(self, run: Run, key: tuple[int | None, str], event: Event) -> None:
        if key not in run.said:
            run.said.add(key)
            self._committer.observe(event)
