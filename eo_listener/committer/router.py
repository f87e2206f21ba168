"""The thread between Spark's events and the committer: finds out where offsets go."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from eo_listener.committer.committer import Committer
from eo_listener.errors import FormatError, JvmError
from eo_listener.events import Malfunction, SourceIgnored
from eo_listener.progress import Progress
from eo_listener.protocols import SourceReader
from eo_listener.routing import Rules

_RUNS_KEPT = (
    10_000  # a bound for runs whose end was never told: Spark drops events when its bus is full
)
_INSPECTIONS = 3  # a query that cannot be inspected three times in a row will not be the fourth

logger = logging.getLogger("eo_listener")


@dataclass(slots=True)
class _Run:
    """What is known of one run of a query."""

    options: Mapping[int, Mapping[str, str]] | None = field(default=None, repr=False)  # secrets
    inspections: int = 0
    said: set[tuple[int | None, str]] = field(default_factory=set)


class Router:
    """Takes progress events over from Spark's thread, and offers their offsets for committing.

    Of a run only the newest event is kept: it holds the whole of the offsets. So what waits
    is bounded by the number of running queries.
    """

    def __init__(self, rules: Rules, sources: SourceReader, committer: Committer) -> None:
        self._rules = rules
        self._sources = sources
        self._committer = committer
        self._changed = threading.Condition()
        self._newest: OrderedDict[str, Progress] = OrderedDict()
        self._ended: list[str] = []
        self._unreadable: FormatError | None = None
        self._busy = False
        self._stopping = False
        self._routing: Progress | None = None
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._thread = threading.Thread(target=self._work, name="eo-listener-router", daemon=True)
        self._thread.start()

    def progressed(self, progress: Progress) -> None:
        """Hand an event over; returns at once. After `close` it is refused with a log line."""
        if progress.sources and not any(source.end for source in progress.sources):
            return
        with self._changed:
            late = self._stopping
            if not late:
                self._newest[progress.run_id] = progress
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
            self._unreadable = error
            self._changed.notify_all()

    def ended(self, run_id: str) -> None:
        """Hand over that a run has ended: what waits for a retry is tried now. Returns at once."""
        with self._changed:
            self._ended.append(run_id)
            self._changed.notify_all()

    def flush(self, deadline: float) -> bool:
        """Wait until every event is offered, or the monotonic clock passes `deadline`."""
        with self._changed:
            while self._newest or self._ended or self._unreadable or self._busy:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, deadline: float) -> None:
        """Work off what waits, and stop the thread, until `deadline`; name what is left."""
        done = self.flush(deadline)
        with self._changed:
            self._stopping = True
            left = [*self._newest.values(), *([self._routing] if self._routing else [])]
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
        while self._wait():
            newest, ended, unreadable = self._take()
            for progress in newest:
                self._routing = progress
                self._route(progress)
                self._routing = None
            if unreadable is not None:
                self._committer.observe(
                    Malfunction(where="a progress event", problem=str(unreadable))
                )
            for run_id in ended:
                self._runs.pop(run_id, None)
                self._sources.forget(run_id)
            if ended:
                self._committer.hurry()

    def _wait(self) -> bool:
        """Wait for something to do; False to stop."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._newest or self._ended or self._unreadable or self._stopping):
                self._changed.wait()
            return not self._stopping

    def _take(self) -> tuple[list[Progress], list[str], FormatError | None]:
        with self._changed:
            newest, ended, unreadable = list(self._newest.values()), self._ended, self._unreadable
            self._newest, self._ended, self._unreadable = OrderedDict(), [], None
            self._busy = True
            return newest, ended, unreadable

    def _route(self, progress: Progress) -> None:
        try:
            run = self._runs.setdefault(progress.run_id, _Run())
            while len(self._runs) > _RUNS_KEPT:
                forgotten, _ = self._runs.popitem(last=False)
                self._sources.forget(forgotten)
            options = self._options(run, progress) if progress.sources else None
            route = self._rules.route(progress, options)
            for why in route.ignored:
                self._say_once(run, why)
            for commit in route.commits:
                self._committer.offer(commit)
        except Exception as error:
            # A fault of ours: this thread must outlive it, or every query goes uncommitted.
            logger.exception("eo_listener could not handle an event of query %s", progress.query)
            self._committer.observe(
                Malfunction(where=f"query {progress.query}", problem=type(error).__name__)
            )

    def _options(self, run: _Run, progress: Progress) -> Mapping[int, Mapping[str, str]] | None:
        if run.options is None and run.inspections < _INSPECTIONS:
            run.inspections += 1
            try:
                run.options = self._sources.options(progress.query_id, progress.run_id)
            except JvmError as error:
                logger.debug("query %s cannot be inspected: %s", progress.query, error)
        return run.options

    def _say_once(self, run: _Run, why: SourceIgnored) -> None:
        key = (why.source, why.problem)
        if key not in run.said:
            run.said.add(key)
            self._committer.observe(why)
