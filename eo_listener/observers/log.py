"""Events as log lines: each problem once, and again when it is over."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from eo_listener.events import (
    BatchApplied,
    BatchFailed,
    BatchReplayed,
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
    GuardViolation,
    InternalError,
    PartitionsShared,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryModeDetected,
    QueryStateLost,
    SourceIgnored,
    TopicRecreated,
)
from eo_listener.observers import log_messages
from eo_listener.offsets import TopicPartition

_REMEMBERED = 1000  # things said once each; of more, those that were met last
_OVER = 600.0  # what was not met for so long is over: when it comes again it is news

LONGEST = 2000  # characters of a line: what collects logs cuts or refuses longer ones

logger = logging.getLogger("eo_listener")


_OfGroup = (
    CommitRefused
    | ForeignCommit
    | GroupOffsetsMissing
    | TopicRecreated
    | CommitterFenced
    | PartitionsShared
)


@dataclass(slots=True)
class _Trouble:
    """The errors that a group's commits suffer from, and since when."""

    since: float
    causes: dict[str, set[TopicPartition]] = field(default_factory=dict)
    partitions: set[TopicPartition] = field(default_factory=set)
    failures: int = 0


class EventLogger:
    """An observer that writes to the logger `eo_listener`.

    Failing commits are logged when that begins, again when the cause changes, and when it ends;
    the single failures between are on level DEBUG. Refusals, other writers and internal errors are
    logged once while they last, and again when they come back after ten minutes without. Memory is
    bounded by the number of groups. `clock` is monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._troubles: dict[tuple[str, str], _Trouble] = {}
        self._met: OrderedDict[Hashable, float] = OrderedDict()  # when, the oldest first
        self._committing: set[tuple[str, str]] = set()

    def __call__(self, event: Event) -> None:
        match event:
            case Committed():
                self._committed(event)
            case CommitFailed():
                self._failed(event)
            case CommitRefused():
                new = self._is_new((event.cluster, event.group, event.refusal))
                self._group(event, log_messages.refused(event), once=new)
            case CommitAbandoned():
                _say(
                    logging.ERROR,
                    "group %s at %s: closed before these offsets were confirmed; the group stays "
                    "behind until the query commits again: %s",
                    event.group,
                    event.cluster,
                    event.offsets,
                )
            case InternalError() if self._is_new(event):
                _say(
                    logging.ERROR,
                    "eo_listener failed in %s: %s. The query is not affected. Fix: report this",
                    event.where,
                    event.problem,
                )
            case _:
                self._of_group(event)
                self._of_query(event)

    def _of_group(self, event: Event) -> None:
        match event:
            case ForeignCommit():
                writer = event.writer.run_id if event.writer else None
                new = self._is_new((event.cluster, event.group, writer))
                self._group(event, log_messages.foreign(event), once=new)
            case GroupOffsetsMissing():
                self._group(event, log_messages.vanished(event))
            case TopicRecreated():
                self._group(event, log_messages.recreated(event), logging.ERROR)
            case CommitterFenced():
                self._group(event, log_messages.fenced(event), logging.ERROR)
            case PartitionsShared():
                self._group(event, log_messages.shared(event))

    def _of_query(self, event: Event) -> None:
        match event:
            case GuardViolation():
                text = log_messages.violation(event)
                _say(logging.ERROR, "query %s, source %s: %s", event.query, event.source, text)
            case ProgressEventsMissed():
                _say(logging.WARNING, "query %s: %s", event.query, log_messages.missed(event))
            case ProgressEventsDuplicated():
                _say(logging.WARNING, "query %s: %s", event.query, log_messages.repeated(event))
            case QueryModeDetected():
                _say(logging.INFO, "query %s: %s: %s", event.query, event.mode, event.effect)
            case SourceIgnored():
                self._ignored(event)
            case BatchApplied() | BatchReplayed() | BatchFailed() | QueryStateLost():
                _of_batch(event)

    def _is_new(self, what: Hashable) -> bool:
        """Return True if this has not been met for a while, and is to be said."""
        now, before = self._clock(), self._met.pop(what, None)
        self._met[what] = now
        while len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)
        return before is None or now - before > _OVER

    def _committed(self, event: Committed) -> None:
        key = (event.cluster, event.group)
        trouble = self._troubles.get(key)
        if trouble is not None:
            confirmed = event.offsets.keys()
            trouble.partitions -= confirmed
            # A cause is over when a partition that suffered from it has been committed: if it
            # returns it is news, even if some other partition has been in trouble all the time.
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

    def _failed(self, event: CommitFailed) -> None:
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

    def _group(
        self, event: _OfGroup, text: str, level: int = logging.WARNING, *, once: bool = True
    ) -> None:
        """Say something of a group; what is not said for the first time, on level DEBUG."""
        _say(
            level if once else logging.DEBUG, "group %s at %s: %s", event.group, event.cluster, text
        )

    def _ignored(self, event: SourceIgnored) -> None:
        where = "" if event.source is None else f", source {event.source}"
        _say(
            logging.WARNING if event.misconfigured else logging.INFO,
            "query %s%s: %s. Cause: %s. Fix: %s",
            event.query,
            where,
            event.problem,
            event.cause,
            event.fix,
        )


def _of_batch(event: BatchApplied | BatchReplayed | BatchFailed | QueryStateLost) -> None:
    if isinstance(event, BatchApplied):
        quiet = logging.INFO if event.attempts > 1 or event.dead_letters else logging.DEBUG
        level, text = (
            logging.WARNING if event.gaps or event.skipped else quiet,
            log_messages.applied(event),
        )
    elif isinstance(event, BatchReplayed):
        level, text = logging.INFO, log_messages.replayed(event)
    elif isinstance(event, QueryStateLost):
        level, text = logging.WARNING, log_messages.state_lost(event)
    else:
        level, text = logging.ERROR, log_messages.batch_failed(event)
    _say(level, "query %s, batch %d: %s", event.query, event.batch_id, text)


def _say(level: int, text: str, *args: object) -> None:
    """Write a line; one of many long names loses its middle, and keeps what to do."""
    if not logger.isEnabledFor(level):
        return
    # The template goes along, by which tools tell lines apart; the values as they read now.
    values = tuple(one if isinstance(one, str | int | float) else str(one) for one in args)
    line = text % values
    if len(line) <= LONGEST:
        logger.log(level, text, *values, stacklevel=2)
        return
    head, tail = LONGEST * 2 // 3, LONGEST // 4
    line = f"{line[:head]} [{len(line) - head - tail} characters left out] {line[-tail:]}"
    logger.log(level, "%s", line, stacklevel=2)
