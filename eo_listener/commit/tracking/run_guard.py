"""The guard of one run's batches: violations are reported, and their sources withheld."""

from __future__ import annotations

from collections.abc import Callable

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.event_buffer import RunEvents
from eo_listener.commit.tracking.query_run import QueryRun
from eo_listener.commit.tracking.routing import RoutedOffsets
from eo_listener.commit.tracking.sequence_guard import GuardMode, judge
from eo_listener.model.events import GuardViolation, ProgressEventsMissed, Violation, ViolationKind
from eo_listener.model.observers import Observers
from eo_listener.model.progress import Progress


class RunGuard:
    """Judges the events of a run before their offsets are offered. For one thread."""

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
        """Report missed events and violations; withhold the sources, where the mode says so.

        `routed` is what the newest event was routed to; `monotonic` takes a time of an event to
        the monotonic clock.
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
            found = run.judge_first(first).items()
            wrong += [(first.batch_id, source, violations) for source, violations in found]
        for event in (*events.earlier, events.newest):
            if event.planned is not None:
                found = self._losses(event, routed, monotonic(event.planned)).items()
                wrong += [(event.batch_id, source, losses) for source, losses in found]
        for batch_id, source, violations in wrong:
            self._violated(run, routed, batch_id, source, violations)

    def _losses(
        self, progress: Progress, routed: RoutedOffsets, planned: float
    ) -> dict[int, tuple[Violation, ...]]:
        """Records that Kafka had deleted before a batch could read them, by source."""
        losses = {}
        for source in progress.sources:
            starts = {
                tp: start
                for part in routed.sources.get(source.index, ())
                if part.lossy
                for tp, start in self._committer.log_starts(part, planned).items()
            }
            if starts and source.end is not None and source.start is not None:
                violations = judge(source.start, source.start, source.end, starts)
                losses[source.index] = tuple(
                    one for one in violations if one.kind is ViolationKind.LOST
                )
        return {index: lost for index, lost in losses.items() if lost}

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
        self._observers.notify(
            GuardViolation(
                query=run.query,
                run_id=run.run_id,
                batch_id=batch_id,
                source=source,
                violations=violations,
                withheld=withheld,
            )
        )
