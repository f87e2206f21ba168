"""Events with values made up: a test names those that it means."""

from __future__ import annotations

from typing import Any

from eo_listener.events import (
    BatchApplied,
    BatchFailed,
    CommitFailed,
    CommitRefused,
    Committed,
    ForeignCommit,
    GuardViolation,
    Refusal,
    Violation,
    ViolationKind,
)
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP: dict[str, Any] = {"cluster": "k:9092", "group": "g"}
RUN: dict[str, Any] = {"query": "flights", "run_id": "r1"}
BATCH: dict[str, Any] = {**RUN, "batch_id": 3, "sink": "a sink"}
APPLIED = BatchApplied(
    **BATCH,
    rows=12,
    dead_letters=0,
    ranges={P0: OffsetRange(5, 9)},
    replayed={},
    gaps={},
    skipped={},
    attempts=1,
    seconds=0.1,
)
HALTED = BatchFailed(
    **{**BATCH, "batch_id": 4, "sink": None}, error="GapError", problem="p", cause="c", fix="f"
)
FOREIGN = ForeignCommit(
    **GROUP, group_offsets=Offsets({P0: 3}), own_offsets=Offsets({P0: 5}), writer=None, zombie=False
)
GAP = Violation(kind=ViolationKind.GAP, partition=P0, start=5, until=9)
VIOLATED = GuardViolation(**RUN, batch_id=7, source=0, violations=(GAP,), withheld=False)


def committed(offsets: Offsets, group: str = "g", seconds: float = 0.02) -> Committed:
    return Committed(cluster="k:9092", group=group, offsets=offsets, seconds=seconds)


def failed(code: str = "_TRANSPORT", *partitions: TopicPartition, **more: Any) -> CommitFailed:
    how: dict[str, Any] = {"detail": "connection refused", "refused": False, "unknown": True}
    return CommitFailed(
        **GROUP,
        errors=dict.fromkeys(partitions or (P0,), code),
        code=code,
        cause=f"the cause of {code}",
        fix="the fix",
        failures=1,
        retry_in=1.0,
        **{**how, **more},
    )


def refused(cluster: str = "k:9092") -> CommitRefused:
    held, offered = Offsets({P0: 5}), Offsets({P0: 3})
    return CommitRefused(
        cluster=cluster, group="g", refusal=Refusal.BELOW_GROUP, offsets=offered, obstacles=held
    )
