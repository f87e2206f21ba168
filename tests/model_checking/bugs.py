"""Bugs planted in the product's own code, one decision each, to see whether the model notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from eo_listener.commit.groups import group_state, partition_state
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.group_state import GroupState
from eo_listener.commit.groups.partition_state import PartitionState
from eo_listener.commit.tracking import query_run
from eo_listener.commit.tracking.query_run import QueryRun
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode, SequenceGuard
from eo_listener.commit.tracking.shared_partitions import SharedPartitions
from eo_listener.commit.tracking.tracker import QueryTracker, RunGuard
from eo_listener.model.kafka_errors import explain
from eo_listener.model.protocols import LivePosition
from tests.model_checking.spark import Phase, Queries


@dataclass(frozen=True, slots=True)
class Bug:
    """What is wrong, where it shows, and the methods that are replaced."""

    name: str
    scope: str
    changes: tuple[tuple[Any, str, Callable[..., Any]], ...]


def bug(name: str, scope: str, where: Any, method: str, new: Callable[..., Any]) -> Bug:
    """A bug that changes one method."""
    return Bug(name, scope, ((where, method, new),))


def always(value: Any) -> Callable[..., Any]:
    """A method that answers this, whatever it is asked."""
    return lambda *asked, **how: value


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The product has this bug while this is open."""
    with ExitStack() as stack:
        for where, name, change in bug.changes:
            stack.enter_context(patch.object(where, name, change))
        yield


_offer, _settle, _see = GroupState.offer, GroupState.on_commit_answer, PartitionState.compare
_position, _route = Queries.position, GroupRouting.route
_follow = SequenceGuard.follow


def _one_more(self: GroupState, commit: GroupOffsets, **how: Any) -> Any:
    more = {tp: replace(one, offset=one.offset + 1) for tp, one in commit.positions.items()}
    return _offer(self, replace(commit, positions=more), **how)


def _planned_end(self: Queries, query_id: str, run_id: str) -> LivePosition | None:
    run = self._of(run_id)
    if run.phase is Phase.PLANNED and run.current is not None:
        return LivePosition(batch_id=run.batch, committed={0: run.current.end})
    return _position(self, query_id, run_id)


def _start_offsets(self: GroupRouting, progress: Any, *options: Any) -> Any:
    sources = tuple(replace(one, end=one.start or one.end) for one in progress.sources)
    return _route(self, replace(progress, sources=sources), *options)


def _all_or_nothing(self: GroupState, request: Any, answer: Mapping[Any, Any], *rest: Any) -> Any:
    if None in answer.values():
        answer = dict.fromkeys(request.positions)
    return _settle(self, request, answer, *rest)


def _once(self: PartitionState, policy: Any) -> float:
    return 1e12 if self.snapshot_at is not None else self.not_before


def _blind_to_group(self: PartitionState, found: Any, end: int, policy: Any) -> Any:
    wanted = self.wanted
    lower = found is not None and wanted is not None and found.offset > wanted.offset
    return _see(self, None if lower else found, end, policy)


def _endless(self: PartitionState, found: Any, end: int, policy: Any) -> Any:
    return _see(self, found, 2**62, policy)


def _no_repeat(self: PartitionState, position: Any, now: float, repeat_after: float) -> None:
    _land(self, position, now, repeat_after)
    self.repeat = None


def _repeat_forgotten(self: PartitionState, position: Any, now: float, repeat_after: float) -> None:
    doubtful = self.confirmed is None or (self.retry_state is not None and self.retry_state.unknown)
    _land(self, position, now, repeat_after)
    self.repeat = now + repeat_after if doubtful else None


_land = PartitionState.confirm


def _first_undoubted(self: PartitionState, position: Any, now: float, repeat_after: float) -> None:
    doubtful = self.retry_state is not None and self.retry_state.unknown
    _land(self, position, now, repeat_after)
    self.repeat = now + repeat_after if doubtful else None


def _greatest(self: SharedPartitions, run_id: str, query: str, commit: Any) -> Any:
    return commit, None


def _of_nothing(self: QueryRun, position: LivePosition) -> Any:
    return replace(_at(self, position), sources=())


_at = QueryRun.at


def _not_renewed(self: GroupState, commit: GroupOffsets, **_: Any) -> Any:
    return _offer(self, commit)


def _blind_guard(self: SequenceGuard, progress: Any) -> Any:
    return replace(_follow(self, progress), violations={})


def _nervous_guard(self: SequenceGuard, progress: Any) -> Any:
    """Batches whose events were lost count as gaps."""
    batch = self._batch
    if batch is not None and progress.batch_id > batch + 1:
        self._batch = progress.batch_id - 1
    return _follow(self, progress)


def _greedy(self: GroupState, code: str) -> Any:
    self._is_new = True
    return _fence(self, code)


_fence = GroupState._fence


def _never_final(code: str) -> Any:
    return replace(_explain(code), fatal=False)


_explain = explain


def _unlooked_repeat(self: PartitionState, now: float) -> Any:
    """A repeat does not wait for the snapshot that failed."""
    if self.pending is not None:
        return self.pending if self.not_before <= now else None
    return self.confirmed if self.repeat is not None and self.repeat <= now else None


def _unlooked_next(self: PartitionState, policy: Any) -> float | None:
    if self.repeat is None or self.pending is not None:
        return _next_try(self, policy)
    return self.repeat


_next_try = PartitionState.next_try


def _repeat_of_what_is_gone(self: PartitionState) -> bool:
    return self.wanted is not None or self.mark is not None


def _unforgetting(self: SequenceGuard, progress: Any) -> Any:
    """An event that comes again is a batch that comes again."""
    self._ranges = ()
    return _follow(self, progress)


def _newest_alone(self: RunGuard, run: QueryRun, events: Any, *about: Any) -> None:
    """The newest event holds all offsets, so no other is looked at."""
    _judge(self, run, replace(events, earlier=[]), *about)


def _newest_start(self: PartitionState, start: int, now: float) -> None:
    """Only the last snapshot is remembered."""
    self.log_starts = ((start, now),)


def _other_guard(self: RunGuard, *about: Any) -> None:
    """Withholds where it is to warn, and warns where it is to withhold."""
    mode = self._mode
    self._mode = GuardMode.WARN if mode is GuardMode.WITHHOLD else GuardMode.WITHHOLD
    _violated(self, *about)
    self._mode = mode


_violated, _judge = RunGuard._violated, RunGuard.judge


def _all_rivals(self: GroupState, commit: GroupOffsets, **how: Any) -> Any:
    """No query but the very same one may go back."""
    return _offer(self, replace(commit, rivals=frozenset(commit.positions)), **how)


BUGS = (
    bug("commit offset + 1", "calm", GroupState, "offer", _one_more),
    bug("commit the planned end", "calm", Queries, "position", _planned_end),
    bug("commit start offsets", "calm", GroupRouting, "route", _start_offsets),
    bug("errors of partitions ignored", "doubt", GroupState, "on_commit_answer", _all_or_nothing),
    bug("no look at all", "calm", PartitionState, "snapshot_due", always(1e12)),
    bug("one look only", "answers", PartitionState, "snapshot_due", _once),
    bug("the group may go back", "rewind", PartitionState, "compare", _blind_to_group),
    bug("the guard's mark is not read", "mark", PartitionState, "_check_mark", always(())),
    bug("topic ids ignored", "topics", GroupState, "_recreations", always(())),
    bug("log end ignored", "topics", PartitionState, "compare", _endless),
    bug("no repeat after doubt", "doubt", PartitionState, "confirm", _no_repeat),
    bug("doubt ends with the next commit", "doubt", PartitionState, "confirm", _repeat_forgotten),
    bug("late request of a dead driver", "replay", PartitionState, "confirm", _first_undoubted),
    bug(
        "rewind not in the metadata",
        "allow",
        partition_state,
        "_rewinding",
        lambda position, held: position,
    ),
    bug("guard withholds nothing", "guard", PartitionState, "withhold", always(None)),
    bug("greatest of shared offsets", "shared", SharedPartitions, "lowest", _greatest),
    bug("a fenced group goes on", "fenced", group_state, "explain", _never_final),
    bug("a fenced group is taken back again and again", "returned", GroupState, "_fence", _greedy),
    bug("no catch-up", "crash", QueryRun, "at", _of_nothing),
    bug("no renewal", "expire", GroupState, "offer", _not_renewed),
    bug("guard sees nothing", "guard", SequenceGuard, "follow", _blind_guard),
    bug("lost events are gaps", "guard", SequenceGuard, "follow", _nervous_guard),
    Bug(
        "repeat without its look",
        "blind",
        (
            (PartitionState, "sendable", _unlooked_repeat),
            (PartitionState, "next_try", _unlooked_next),
        ),
    ),
    bug(
        "repeat for a topic that is gone",
        "deleted",
        PartitionState,
        "partition_missing",
        _repeat_of_what_is_gone,
    ),
    bug(
        "what a look showed is forgotten",
        "standstill",
        PartitionState,
        "_compare_confirmed",
        always(()),
    ),
    bug("looks outlive a standstill", "zombie", GroupState, "invalidate_snapshots", always(())),
    bug("an event counts each time", "twice", SequenceGuard, "follow", _unforgetting),
    bug("a position's number is exact", "behind", query_run, "_is_at_end", always(False)),
    bug("lost records are not looked for", "lossy", RunGuard, "_losses", always({})),
    bug("losses of the newest batch alone", "lossy and slow", RunGuard, "judge", _newest_alone),
    bug("one start of a log is kept", "lossy", PartitionState, "record_log_start", _newest_start),
    bug("the guard withholds nothing", "guard", RunGuard, "_violated", _other_guard),
    bug("the guard withholds all the same", "warned", RunGuard, "_violated", _other_guard),
    bug("a late event takes a group back", "late allowed", QueryRun, "is_late", always(False)),
    bug("an end must be told", "mute", QueryTracker, "_has_ended", always(False)),
    bug("no beginning is compared", "latest", PartitionState, "judge_beginning", always(())),
    bug("a new checkpoint stays ahead", "anew", GroupState, "offer", _all_rivals),
)
