"""An event of each class, in each of the forms that make another line of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from eo_listener.commit.tracking.group_names import GROUP_OPTION, GroupNames, NotCommitted
from eo_listener.commit.tracking.query_run import _MODE_EFFECTS as MODE_EFFECTS
from eo_listener.foreach_batch.batch_failed import batch_failed
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import GapError
from eo_listener.model.events import (
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
    QueryProgressed,
    QueryReported,
    QueryStateLost,
    Refusal,
    RunGroupsChanged,
    SourceIgnored,
    TopicRecreated,
    Violation,
    ViolationKind,
)
from eo_listener.model.kafka_errors import explain
from eo_listener.model.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.model.progress import Progress
from tests.documents.error_classes import guard_errors

_P0: Final = TopicPartition("flights", 0)
_P1: Final = TopicPartition("flights", 1)
_OURS: Final = CommitMetadata(name="delays", query_id="0f8c2a11", run_id="9b1d7e40", batch_id=41)
_ZOMBIE: Final = CommitMetadata(name="delays", query_id="0f8c2a11", run_id="77aa01ce", batch_id=40)
_OTHER: Final = CommitMetadata(name="arrivals", query_id="5d20c3b7", run_id="e1f40a96", batch_id=7)
_GROUP: Final[dict[str, Any]] = {"cluster": "kafka:9092", "group": "flights-to-pg"}
_RUN: Final[dict[str, Any]] = {
    "query": "delays",
    "run_id": "9b1d7e40-1a2b-4c3d-8e4f-5a6b7c8d9e0f",
}
_SINK: Final[dict[str, Any]] = {**_RUN, "batch_id": 41, "sink": "PostgreSQL table delays"}
_PROGRESS: Final = Progress(
    query_id="0f8c2a11-9d0c-4f0e-8f6e-8d1f3a7b5c21",
    run_id=_RUN["run_id"],
    name="delays",
    batch_id=41,
    timestamp="",
    sources=(),
)
_AT: Final = Offsets({_P0: 9500})
_RANGE: Final = OffsetRange(9000, 9500)


def failed(code: str) -> CommitFailed:
    """A commit that failed with one of Kafka's errors."""
    why = explain(code)
    return CommitFailed(
        **_GROUP,
        errors={_P0: code},
        code=code,
        cause=why.cause,
        fix=why.fix,
        detail=None,
        refused=why.lasting,
        unknown=why.outcome_unknown,
        failures=1,
        retry_in=1.0,
    )


def _applied(**given: Any) -> BatchApplied:
    usual: dict[str, Any] = {
        "rows": 480,
        "dead_letters": 0,
        "ranges": {_P0: _RANGE},
        "replayed": {},
        "gaps": {},
        "skipped": {},
        "attempts": 1,
        "seconds": 1.2,
    }
    return BatchApplied(**_SINK, **{**usual, **given})


def of_groups() -> Iterator[tuple[Event, ...]]:
    """Of a group and its commits: those of one tuple happen one after the other."""
    yield (Committed(**_GROUP, offsets=_AT, seconds=0.02),)
    yield (failed("GROUP_AUTHORIZATION_FAILED"), Committed(**_GROUP, offsets=_AT, seconds=0.02))
    for refusal in Refusal:
        yield (
            CommitRefused(
                **_GROUP,
                refusal=refusal,
                offered=_AT,
                held=Offsets({_P0: 9900}),
                writer=_OURS if refusal is Refusal.BELOW_GROUP else None,
            ),
        )
    ours = Offsets({_P0: 9400})
    for writer, zombie in ((_ZOMBIE, True), (_OTHER, False), (None, False)):
        yield (ForeignCommit(**_GROUP, found=_AT, ours=ours, writer=writer, zombie=zombie),)
    yield (GroupOffsetsMissing(**_GROUP, offsets=_AT),)
    yield (
        TopicRecreated(
            **_GROUP,
            topic="flights",
            was="oUGRmzqMQ9KAFcHjmvJ9ig",
            now="8Zx4mgQdTyaHkcTSeyDJXQ",
            offsets=_AT,
        ),
    )
    fenced = explain("PRODUCER_FENCED")
    yield (
        CommitterFenced(
            **_GROUP, code="PRODUCER_FENCED", cause=fenced.cause, fix=fenced.fix, offsets=_AT
        ),
    )
    yield (CommitAbandoned(**_GROUP, offsets=_AT),)
    readers = ("delays, source 0", "arrivals, source 0")
    yield (PartitionsShared(**_GROUP, partitions=(_P0, _P1), readers=readers),)


def _ignored(options: Mapping[str, str]) -> SourceIgnored:
    try:
        GroupNames().find(_PROGRESS, "flights", options)
    except NotCommitted as why:
        return SourceIgnored(
            **_RUN,
            source=0,
            problem=why.problem,
            cause=why.cause,
            fix=why.fix,
            misconfigured=why.misconfigured,
        )
    raise AssertionError(options)


def of_queries() -> Iterator[tuple[Event, ...]]:
    """Of a query and what Spark reports of it."""
    for kind in ViolationKind:
        until = {ViolationKind.VANISHED: 9000, ViolationKind.BACKWARD: 8000}.get(kind, 9500)
        violation = Violation(kind=kind, partition=_P0, start=9000, until=until)
        yield (
            GuardViolation(**_RUN, batch_id=41, source=0, violations=(violation,), withheld=True),
        )
    for options in ({GROUP_OPTION: ""}, {}):
        yield (_ignored(options),)
    yield (ProgressEventsMissed(**_RUN, after_batch=40, before_batch=44),)
    yield (ProgressEventsDuplicated(**_RUN, batch_id=41),)
    for mode, effect in MODE_EFFECTS.items():
        yield (QueryModeDetected(**_RUN, mode=mode.value, effect=effect),)
    yield (QueryProgressed(**_RUN, batch_id=41, metrics=BatchMetrics(), sources=()),)
    yield (QueryReported(**_RUN),)
    yield (RunGroupsChanged(**_RUN, groups=frozenset({("kafka:9092", "g")}), ended=False),)


def of_sinks() -> Iterator[tuple[Event, ...]]:
    """Of batches that `exactly_once` brings into a sink."""
    yield (batch_failed(next(guard_errors(GapError)), **_SINK),)
    yield (QueryStateLost(**_SINK),)
    yield (_applied(gaps={_P0: _RANGE}),)
    yield (_applied(skipped={_P0: OffsetRange(0, 9000)}),)
    yield (_applied(dead_letters=3, attempts=2),)
    yield (_applied(),)
    yield (BatchReplayed(**_SINK, discarded=True),)


def of_ourselves() -> Iterator[tuple[Event, ...]]:
    """Of eo_listener itself."""
    yield (InternalError(where="query delays", problem="KeyError"),)


ALERTS: Final[dict[type[Event], tuple[str, ...]]] = {
    BatchApplied: ("EoListenerRowsLost", "EoListenerDeadLetters"),
    BatchFailed: ("EoListenerSinkBatchFailed",),
    CommitAbandoned: ("EoListenerGroupIncident",),
    CommitFailed: ("EoListenerCommitsFail", "EoListenerCommitErrorRate"),
    CommitRefused: ("EoListenerCommitsRefused",),
    CommitterFenced: ("EoListenerSomebodyElseCommits",),
    ForeignCommit: ("EoListenerSomebodyElseCommits",),
    GroupOffsetsMissing: ("EoListenerGroupIncident",),
    GuardViolation: ("EoListenerBatchesDoNotContinue", "EoListenerSourceWithheld"),
    InternalError: ("EoListenerInternalError",),
    PartitionsShared: ("EoListenerGroupIncident",),
    ProgressEventsMissed: ("EoListenerProgressEventsMissed",),
    QueryStateLost: ("EoListenerRowsLost",),
    SourceIgnored: ("EoListenerSourceIgnored",),
    TopicRecreated: ("EoListenerTopicRecreated",),
}
"""Which alerts an event fires, whose commands are then what to type."""
