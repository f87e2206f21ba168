"""An event of each class, in each of the forms that make another line of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from eo_listener.commit.tracking.group_names import GROUP_OPTION, GroupNames, NotCommitted
from eo_listener.commit.tracking.query_run import _MODE_EFFECTS as MODE_EFFECTS
from eo_listener.foreach_batch.batch_failed import batch_failed
from eo_listener.model import events
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import GapError
from eo_listener.model.events import Event, Refusal, Violation, ViolationKind
from eo_listener.model.kafka_errors import explain
from eo_listener.model.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.model.progress import Progress
from tests.documents.explained import guard_errors

_P0: Final = TopicPartition("flights", 0)
_AT: Final = Offsets({_P0: 9500})
_RUN: Final = "9b1d7e40-1a2b-4c3d-8e4f-5a6b7c8d9e0f"
_OURS: Final = CommitMetadata(name="delays", query_id="0f8c2a11", run_id="9b1d7e40", batch_id=41)
_ZOMBIE: Final = CommitMetadata(name="delays", query_id="0f8c2a11", run_id="77aa01ce", batch_id=40)
_OTHER: Final = CommitMetadata(name="arrivals", query_id="5d20c3b7", run_id="e1f40a96", batch_id=7)
_SINK: Final = "PostgreSQL table delays"
# What a field holds unless an example says otherwise.
_USUAL: Final[Mapping[str, Any]] = {
    "cluster": "kafka:9092",
    "group": "flights-to-pg",
    "offsets": _AT,
    "offered": _AT,
    "found": _AT,
    "held": Offsets({_P0: 9900}),
    "ours": Offsets({_P0: 9400}),
    "writer": None,
    "zombie": False,
    "topic": "flights",
    "was": "oUGRmzqMQ9KAFcHjmvJ9ig",
    "now": "8Zx4mgQdTyaHkcTSeyDJXQ",
    "partitions": (_P0, TopicPartition("flights", 1)),
    "readers": ("delays, source 0", "arrivals, source 0"),
    "seconds": 1.2,
    "query": "delays",
    "run_id": _RUN,
    "batch_id": 41,
    "source": 0,
    "withheld": True,
    "after_batch": 40,
    "before_batch": 44,
    "metrics": BatchMetrics(),
    "sources": (),
    "groups": frozenset({("kafka:9092", "g")}),
    "ended": False,
    "sink": _SINK,
    "rows": 480,
    "dead_letters": 0,
    "ranges": {_P0: OffsetRange(9000, 9500)},
    "replayed": {},
    "gaps": {},
    "skipped": {},
    "attempts": 1,
    "discarded": True,
    "where": "query delays",
    "problem": "KeyError",
}


def event(kind: type[Event], **changed: Any) -> Event:
    """Make one whose fields are as usual, but for these."""
    usual = {one.name: _USUAL.get(one.name, one.default) for one in fields(kind)}
    values = {name: value for name, value in usual.items() if value is not MISSING}
    return kind(**{**values, **changed})


def _failed(kind: type[Event], code: str, **changed: Any) -> Event:
    why = explain(code)
    return event(kind, code=code, cause=why.cause, fix=why.fix, **changed)


def of_groups() -> Iterator[tuple[Event, ...]]:
    """Of a group and its commits: those of one tuple happen one after the other."""
    committed = event(events.Committed)
    yield (committed,)
    code = "GROUP_AUTHORIZATION_FAILED"
    lasting = {"detail": None, "refused": True, "unknown": False, "failures": 1, "retry_in": 1.0}
    yield (_failed(events.CommitFailed, code, errors={_P0: code}, **lasting), committed)
    for refusal in Refusal:
        writer = _OURS if refusal is Refusal.BELOW_GROUP else None
        yield (event(events.CommitRefused, refusal=refusal, writer=writer),)
    for other in (_ZOMBIE, _OTHER, None):
        yield (event(events.ForeignCommit, writer=other, zombie=other is _ZOMBIE),)
    yield (event(events.GroupOffsetsMissing),)
    yield (event(events.TopicRecreated),)
    yield (_failed(events.CommitterFenced, "PRODUCER_FENCED"),)
    yield (event(events.CommitAbandoned),)
    yield (event(events.PartitionsShared),)


def _ignored(options: Mapping[str, str]) -> Event:
    progress = Progress(
        query_id="0f8c2a11-9d0c-4f0e-8f6e-8d1f3a7b5c21",
        run_id=_RUN,
        name="delays",
        batch_id=41,
        timestamp="",
        sources=(),
    )
    try:
        GroupNames().find(progress, "flights", options)
    except NotCommitted as why:
        texts = {"problem": why.problem, "cause": why.cause, "fix": why.fix}
        return event(events.SourceIgnored, misconfigured=why.misconfigured, **texts)
    raise AssertionError(options)


def of_queries() -> Iterator[tuple[Event, ...]]:
    """Of a query and what Spark reports of it."""
    for kind in ViolationKind:
        until = {ViolationKind.VANISHED: 9000, ViolationKind.BACKWARD: 8000}.get(kind, 9500)
        violation = Violation(kind=kind, partition=_P0, start=9000, until=until)
        yield (event(events.GuardViolation, violations=(violation,)),)
    yield (_ignored({GROUP_OPTION: ""}),)
    yield (_ignored({}),)
    yield (event(events.ProgressEventsMissed),)
    yield (event(events.ProgressEventsDuplicated),)
    for mode, effect in MODE_EFFECTS.items():
        yield (event(events.QueryModeDetected, mode=mode.value, effect=effect),)
    yield (event(events.QueryProgressed),)
    yield (event(events.QueryReported),)
    yield (event(events.RunGroupsChanged),)


def of_sinks() -> Iterator[tuple[Event, ...]]:
    """Of batches that `exactly_once` brings into a sink."""
    gap = next(guard_errors(GapError))
    yield (batch_failed(gap, query="delays", run_id=_RUN, batch_id=41, sink=_SINK),)
    yield (event(events.QueryStateLost),)
    yield (event(events.BatchApplied, gaps=_USUAL["ranges"]),)
    yield (event(events.BatchApplied, skipped={_P0: OffsetRange(0, 9000)}),)
    yield (event(events.BatchApplied, dead_letters=3, attempts=2),)
    yield (event(events.BatchApplied),)
    yield (event(events.BatchReplayed),)


def of_ourselves() -> Iterator[tuple[Event, ...]]:
    """Of eo_listener itself."""
    yield (event(events.InternalError),)


ALERTS: Final[dict[type[Event], tuple[str, ...]]] = {
    events.BatchApplied: ("EoListenerRowsLost", "EoListenerDeadLetters"),
    events.BatchFailed: ("EoListenerSinkBatchFailed",),
    events.CommitAbandoned: ("EoListenerGroupIncident",),
    events.CommitFailed: ("EoListenerCommitsFail", "EoListenerCommitErrorRate"),
    events.CommitRefused: ("EoListenerCommitsRefused",),
    events.CommitterFenced: ("EoListenerSomebodyElseCommits",),
    events.ForeignCommit: ("EoListenerSomebodyElseCommits",),
    events.GroupOffsetsMissing: ("EoListenerGroupIncident",),
    events.GuardViolation: ("EoListenerBatchesDoNotContinue", "EoListenerSourceWithheld"),
    events.InternalError: ("EoListenerInternalError",),
    events.PartitionsShared: ("EoListenerGroupIncident",),
    events.ProgressEventsMissed: ("EoListenerProgressEventsMissed",),
    events.QueryStateLost: ("EoListenerRowsLost",),
    events.SourceIgnored: ("EoListenerSourceIgnored",),
    events.TopicRecreated: ("EoListenerTopicRecreated",),
}
"""Which alerts an event fires, whose commands are then what to type."""
