"""Writes events as log lines. Each problem is logged once when it begins and once when it ends.

A line reports what happened, with the event's values, the likely cause, and the fix.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eo_listener import events
from eo_listener.errors import few
from eo_listener.offsets import TopicPartition

_REMEMBERED = 1000  # problems that count as already logged; older ones are forgotten
_OVER = 600.0  # seconds without a problem, after which it is logged again if it returns

LONGEST = 2000  # characters of a line: log collectors cut or refuse longer ones

logger = logging.getLogger("eo_listener")


@dataclass(slots=True)
class _Trouble:
    """The errors of a group's failing commits, and the time of the first failure."""

    since: float
    causes: dict[str, set[TopicPartition]] = field(default_factory=dict)
    partitions: set[TopicPartition] = field(default_factory=set)
    failures: int = 0


class EventLogger:
    """An observer that writes to the logger `eo_listener`.

    If commits fail, it logs the first failure, each new cause, and the end of the failures; it logs
    the failures in between at DEBUG. It logs a refusal at DEBUG if the same refusal occurred in the
    last ten minutes, and a foreign commit if the same writer committed in that time. It does not
    log the same internal error twice in that time. Its memory grows only with the number of groups.
    `clock` is monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._troubles: dict[tuple[str, str], _Trouble] = {}
        self._last_met: OrderedDict[Hashable, float] = OrderedDict()  # the oldest first
        self._committing: set[tuple[str, str]] = set()

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Committed():
                self._committed(event)
            case events.CommitFailed():
                self._failed(event)
            case events.CommitRefused():
                self._log_once(event, event.refusal, _commit_refused(event))
            case events.ForeignCommit():
                writer = event.writer.run_id if event.writer else None
                self._log_once(event, writer, _foreign_commit(event))
            case events.CommitAbandoned():
                _say(
                    logging.ERROR,
                    "group %s at %s: closed before Kafka confirmed these offsets; the group stays "
                    "behind until the query commits again: %s",
                    event.group,
                    event.cluster,
                    event.offsets,
                )
            case events.InternalError() if self._is_new(event):
                _say(
                    logging.ERROR,
                    "eo_listener failed in %s: %s. The query is not affected. Fix: report this",
                    event.where,
                    event.problem,
                )
            case _:
                _log(event)

    def _log_once(
        self, event: events.CommitRefused | events.ForeignCommit, key: Hashable, text: str
    ) -> None:
        """Log `text` at WARNING, or at DEBUG if it repeats a problem of the last ten minutes."""
        new = self._is_new((event.cluster, event.group, key))
        level = logging.WARNING if new else logging.DEBUG
        _say(level, "group %s at %s: %s", event.group, event.cluster, text)

    def _is_new(self, key: Hashable) -> bool:
        """Return True if `key` was not recorded within the last ten minutes, and record it now."""
        now, before = self._clock(), self._last_met.pop(key, None)
        self._last_met[key] = now
        while len(self._last_met) > _REMEMBERED:
            self._last_met.popitem(last=False)
        return before is None or now - before > _OVER

    def _committed(self, event: events.Committed) -> None:
        key = (event.cluster, event.group)
        trouble = self._troubles.get(key)
        if trouble is not None:
            confirmed = event.offsets.keys()
            trouble.partitions -= confirmed
            # A cause is over when Kafka has confirmed a partition that failed with this cause. If
            # the cause returns, it is logged again, even if another partition has failed with it
            # all the time.
            trouble.causes = {c: tps for c, tps in trouble.causes.items() if not tps & confirmed}
            if not trouble.partitions:
                del self._troubles[key]
                _say(
                    logging.INFO,
                    "group %s at %s: commits succeed again, after %d failures in %.1f s",
                    event.group,
                    event.cluster,
                    trouble.failures,
                    self._clock() - trouble.since,
                )
        if key not in self._committing:
            self._committing.add(key)
            _say(logging.INFO, "group %s at %s: commits have begun", event.group, event.cluster)
        _say(
            logging.DEBUG, "group %s at %s: committed %s", event.group, event.cluster, event.offsets
        )

    def _failed(self, event: events.CommitFailed) -> None:
        key = (event.cluster, event.group)
        trouble = self._troubles.setdefault(key, _Trouble(since=self._clock()))
        trouble.failures += 1
        trouble.partitions |= event.errors.keys()
        level = logging.DEBUG if event.cause in trouble.causes else logging.WARNING
        trouble.causes.setdefault(event.cause, set()).update(event.errors)
        _say(
            level,
            "group %s at %s: commit failed (%s on %d partitions%s). Cause: %s%s. Fix: %s. The "
            "query is not affected; the newest offsets are kept and committed again",
            event.group,
            event.cluster,
            event.code,
            len(event.errors),
            ", outcome unknown" if event.unknown else "",
            event.cause,
            f" ({event.detail})" if event.detail else "",
            event.fix,
        )


def _log(event: Any) -> None:
    """Log an event whose log line does not depend on earlier events."""
    kind = type(event)
    if kind in _GROUP_LINES:
        level, text = _GROUP_LINES[kind]
        _say(level, "group %s at %s: %s", event.group, event.cluster, text(event))
    elif kind in _BATCH_LINES:
        level, text = _BATCH_LINES[kind]
        _say(level, "query %s, batch %d: %s", event.query, event.batch_id, text(event))
    else:
        _log_of_query(event)


def _log_of_query(event: events.Event) -> None:
    match event:
        case events.BatchApplied():
            quiet = logging.INFO if event.attempts > 1 or event.dead_letters else logging.DEBUG
            level = logging.WARNING if event.gaps or event.skipped else quiet
            text = _batch_applied(event)
            _say(level, "query %s, batch %d: %s", event.query, event.batch_id, text)
        case events.GuardViolation():
            text = _guard_violation(event)
            _say(logging.ERROR, "query %s, source %s: %s", event.query, event.source, text)
        case events.ProgressEventsMissed():
            _say(logging.WARNING, "query %s: %s", event.query, _events_missed(event))
        case events.ProgressEventsDuplicated():
            _say(logging.WARNING, "query %s: %s", event.query, _events_duplicated(event))
        case events.QueryModeDetected():
            _say(logging.INFO, "query %s: %s: %s", event.query, event.mode, event.effect)
        case events.OptionsRead():
            _say(
                logging.INFO,
                "query %s: the options of its sources have been read, so its offsets are "
                "committed; the line that they could not be read is withdrawn",
                event.query,
            )
        case events.SourceIgnored():
            _say(
                logging.WARNING if event.misconfigured else logging.INFO,
                "query %s%s: %s. Cause: %s. Fix: %s",
                event.query,
                "" if event.source is None else f", source {event.source}",
                event.problem,
                event.cause,
                event.fix,
            )


def _say(level: int, text: str, *args: object) -> None:
    """Log a line. If the line is too long, shorten it in the middle, so that it keeps its fix."""
    if not logger.isEnabledFor(level):
        return
    # Tools group lines by their template, so the logger gets the template, and the values as of
    # now.
    values = tuple(arg if isinstance(arg, str | int | float) else str(arg) for arg in args)
    line = text % values
    if len(line) <= LONGEST:
        logger.log(level, text, *values, stacklevel=2)
        return
    head, tail = LONGEST * 2 // 3, LONGEST // 4
    line = f"{line[:head]} [{len(line) - head - tail} characters left out] {line[-tail:]}"
    logger.log(level, "%s", line, stacklevel=2)


_REFUSALS = {
    events.Refusal.BELOW_GROUP: (
        (
            "the query was restarted from an older or a new checkpoint, or another query or "
            "program commits to the group"
        ),
        (
            "if the query is to go back, restart it with on_rewind='allow' (follow: --on-rewind "
            "allow); otherwise stop the other writer, or give each query a group of its own"
        ),
    ),
    events.Refusal.BEYOND_LOG_END: (
        "the topic was deleted and recreated, or lost records when a broker failed",
        "check the topic; commits continue once its log has grown beyond these offsets",
    ),
    events.Refusal.WITHHELD_BEFORE: (
        "the guard of an earlier run found a batch that does not continue the batch before it",
        (
            "find its GuardViolation in the earlier log; to accept it, restart with "
            "guard='warn' (follow: --guard warn)"
        ),
    ),
    events.Refusal.AFTER_END: (
        (
            "the query ended before Kafka took these offsets; another query, program or command "
            "has moved the group since"
        ),
        "if the group is this query's, start the query again: it commits its offsets at once",
    ),
}
_VIOLATIONS = {
    events.ViolationKind.GAP: (
        "the checkpoint was changed by hand, or its newest files were lost",
        "read these offsets into the sink again, if they are missing there",
    ),
    events.ViolationKind.REPEAT: (
        "the checkpoint was restored to an older state while the query was running",
        "look for duplicates in the sink",
    ),
    events.ViolationKind.BACKWARD: (
        "the topic was recreated or truncated, and failOnDataLoss=false lets Spark continue",
        "check the topic; records written below these offsets are read as new records",
    ),
    events.ViolationKind.VANISHED: (
        "the topic was deleted or lost partitions, and failOnDataLoss=false lets Spark continue",
        "check the topic, or the pattern that the source subscribes to",
    ),
    events.ViolationKind.LOST: (
        (
            "retention deleted records before the query read them, and failOnDataLoss=false or a "
            "new checkpoint lets Spark continue"
        ),
        "raise the topic's retention or make the query faster; these records are not in the sink",
    ),
    events.ViolationKind.NEVER_READ: (
        (
            "the query has a new checkpoint that begins beyond the group's offsets "
            "(startingOffsets is latest by default), or the group is not this query's"
        ),
        "read these offsets into the sink, if they are missing there",
    ),
}


def _commit_refused(event: events.CommitRefused) -> str:
    cause, fix = _REFUSALS[event.refusal]
    writer = f", {event.writer}" if event.writer else ""
    return (
        f"refused to commit {event.offsets}: {event.refusal.value} ({event.obstacles}{writer}). "
        f"Cause: {cause}. Fix: {fix}"
    )


def _foreign_commit(event: events.ForeignCommit) -> str:
    if event.writer is None:
        writer = "a program other than eo_listener"
    elif event.zombie:
        writer = f"another run of this query ({event.writer}): a second driver, or a zombie"
    else:
        writer = f"another query ({event.writer})"
    return (
        f"the group holds {event.group_offsets}, but this driver committed {event.own_offsets}. "
        f"Cause: another writer commits to it: {writer}. Fix: stop that writer, or let it "
        "use another group; mode='transactional' (follow: --mode transactional) fences a zombie"
    )


def _offsets_missing(event: events.GroupOffsetsMissing) -> str:
    return (
        f"the group no longer holds {len(event.offsets)} committed offsets; they are committed "
        f"again: {event.offsets}. Cause: they expired, or somebody deleted them. Fix: if they "
        "expired, set recommit_interval well below offsets.retention.minutes"
    )


def _topic_recreated(event: events.TopicRecreated) -> str:
    return (
        f"topic {event.topic} was deleted and recreated (its id was {event.was} and is now "
        f"{event.now}). For queries that run now, nothing more is committed for it, and these "
        f"offsets are not committed: {event.offsets}. Fix: start the query again with a new "
        "checkpoint: the current one is for the old topic"
    )


def _partitions_shared(event: events.PartitionsShared) -> str:
    return (
        f"{' and '.join(event.readers)} read the same partitions ({few(event.partitions)}), so "
        "the lowest of their offsets is committed. Fix: give each source its own group"
    )


def _committer_fenced(event: events.CommitterFenced) -> str:
    return (
        f"nothing more is committed for the queries that run now ({event.code}). "
        f"Cause: {event.cause}. Fix: {event.fix}"
    )


def _events_missed(event: events.ProgressEventsMissed) -> str:
    return (
        f"no progress event arrived between batches {event.after_batch} and "
        f"{event.before_batch}, so these batches were not checked for gaps. Cause: Spark drops "
        "events if its listeners are too slow. Fix: look for a slow listener"
    )


def _events_duplicated(event: events.ProgressEventsDuplicated) -> str:
    return (
        f"the progress event of batch {event.batch_id} arrived more than once; the groups are not "
        "affected, since each event counts once. Cause: the listener was added more than once, or "
        "spark.sql.streaming.streamingQueryListeners names its class twice. Fix: add it once; "
        "spark.streams.removeListener(listener) removes one"
    )


def _guard_violation(event: events.GuardViolation) -> str:
    kind, before, withheld = event.violations[0].kind, "batch before it ended", "this source is"
    if any(each.kind is events.ViolationKind.NEVER_READ for each in event.violations):
        kind, before = events.ViolationKind.NEVER_READ, "group stands"
        withheld = "these partitions are"
    cause, fix = _VIOLATIONS[kind]
    if event.withheld:
        fix += (
            "; then restart with guard='warn' (follow: --guard warn) to accept it; until then "
            f"{withheld} not committed"
        )
    return (
        f"batch {event.batch_id} does not continue where the {before}: "
        f"{few(map(_violation, event.violations))}. Cause: {cause}. Fix: {fix}"
    )


def _batch_applied(event: events.BatchApplied) -> str:
    rows = "its rows" if event.rows is None else f"{event.rows} rows"
    text = f"{event.sink} applied {rows}"
    if event.dead_letters:
        text += f" and {event.dead_letters} dead letters"
    if event.attempts > 1:
        text += f", in attempt {event.attempts}"
    if event.gaps:
        lost = sum(until - start for start, until in event.gaps.values())
        ranges = few(f"{tp} {gap}" for tp, gap in event.gaps.items())
        text += (
            f'. {lost} offsets before or in this batch are lost, and on_gap="accept" accepted '
            f'that: {ranges}. Fix: remove on_gap="accept", or the next gap is accepted as well'
        )
    if event.skipped:
        ranges = few(f"{tp} {skipped}" for tp, skipped in event.skipped.items())
        text += (
            ". Its ledger begins with this batch; nothing is known of earlier offsets: "
            f'{ranges}. Fix: remove on_first="accept", or an emptied ledger is accepted as well'
        )
    return text


def _batch_replayed(event: events.BatchReplayed) -> str:
    note = "; the batch was computed for the query's state only" if event.discarded else ""
    return f"{event.sink} already has this batch from an earlier run; nothing was written{note}"


def _state_lost(event: events.QueryStateLost) -> str:
    return (
        f"the query continues in {event.sink} with a new checkpoint, which has no state: open "
        "windows, counts and joins of the old checkpoint are lost, since the ledger "
        "counts the records in them as applied. Fix: keep the checkpoint of a query whose state "
        "matters"
    )


def _batch_failed(event: events.BatchFailed) -> str:
    cause = f". Cause: {event.cause}" if event.cause else ""
    fix = f". Fix: {event.fix}" if event.fix else ""
    return f"{event.error}: {event.problem}{cause}{fix}"


def _violation(violation: events.Violation) -> str:
    kind, start, until = violation.kind, violation.start, violation.until
    where = f"{violation.partition}: {start}"
    if kind is events.ViolationKind.VANISHED:
        return f"{where} {kind.value}"
    if kind is events.ViolationKind.BACKWARD:
        return f"{where} {kind.value} to {until}"
    return f"{where} to {until} {kind.value} ({until - start} offsets)"


_Line = tuple[int, Callable[[Any], str]]
_GROUP_LINES: Final[Mapping[type[events.Event], _Line]] = {
    events.CommitterFenced: (logging.ERROR, _committer_fenced),
    events.GroupOffsetsMissing: (logging.WARNING, _offsets_missing),
    events.PartitionsShared: (logging.WARNING, _partitions_shared),
    events.TopicRecreated: (logging.ERROR, _topic_recreated),
}
_BATCH_LINES: Final[Mapping[type[events.Event], _Line]] = {
    events.BatchFailed: (logging.ERROR, _batch_failed),
    events.BatchReplayed: (logging.INFO, _batch_replayed),
    events.QueryStateLost: (logging.WARNING, _state_lost),
}
