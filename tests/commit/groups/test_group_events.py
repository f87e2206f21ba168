"""The events about one group: what they say where several partitions differ."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from eo_listener.commit.groups.group_state import GroupEvents
from eo_listener.commit.groups.partition_state import Discrepancy, RetryState
from eo_listener.events import CommitRefused, ForeignCommit, Refusal
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.kafka_errors import explain
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Offsets, Position, TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
EVENTS = GroupEvents("k:9092", "g")


def by(writer: str, offset: int) -> Position:
    """An offset that a run left, `writer` being its query and run: `q/r`."""
    query, run = writer.split("/")
    written = CommitMetadata.for_batch(name=None, query_id=query, run_id=run, batch_id=1)
    return Position(offset=offset, metadata=written.text())


def snapshot(
    held: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, int] | None = None
) -> GroupSnapshot:
    return GroupSnapshot(positions=held, starts={}, ends=ends or {}, topic_ids={})


@pytest.mark.parametrize("soonest", [P0, P1])
def test_a_failure_tells_of_what_is_tried_again_first(soonest: TopicPartition) -> None:
    """Of partitions that failed in several ways, the one that is retried first is reported."""
    errors = {P0: "_TRANSPORT", P1: "GROUP_AUTHORIZATION_FAILED"}
    retry_states = {
        tp: RetryState(failures=3 + tp.partition, not_before=11.5 if tp == soonest else 40.0)
        for tp in errors
    }
    reported = EVENTS.failed(errors, retry_states, 10.0, None, persistent_after=60.0)
    assert (reported.code, reported.failures) == (errors[soonest], 3 + soonest.partition)
    assert (reported.cause, reported.refused) == (
        explain(errors[soonest]).cause,
        explain(errors[soonest]).lasting,
    )
    assert reported.retry_in == 1.5
    assert reported.unknown  # of the connection that broke, whichever comes first
    assert reported.errors == errors


def refused(
    refusal: Refusal, snapshot: GroupSnapshot, *partitions: TopicPartition
) -> CommitRefused:
    wanted = {tp: by("mine/now", 5) for tp in (P0, P1, P2)}
    (reported,) = EVENTS.finding(refusal, list(partitions), snapshot, wanted, {})
    assert isinstance(reported, CommitRefused)
    return reported


@pytest.mark.parametrize(
    ("refusal", "obstacles", "writer"),
    [
        (Refusal.BELOW_GROUP, {P0: 7, P1: 8}, "a"),
        (Refusal.WITHHELD_BEFORE, {P0: 7, P1: 8}, "a"),
        (Refusal.BEYOND_LOG_END, {P0: 3, P1: 4}, None),  # which was written by nobody
    ],
)
def test_a_refusal_names_who_wrote_the_first_partition(
    refusal: Refusal, obstacles: dict[TopicPartition, int], writer: str | None
) -> None:
    """Whatever the order in which they were read, and nobody where a program left no metadata."""
    found = snapshot({P0: by("a/1", 7), P1: by("b/2", 8), P2: Position(offset=9)}, {P0: 3, P1: 4})
    reported = refused(refusal, found, P1, P0)
    assert (reported.refusal, reported.offsets) == (refusal, Offsets({P0: 5, P1: 5}))
    assert reported.obstacles == Offsets(obstacles)
    assert (reported.writer and reported.writer.query_id) == writer
    if writer is not None:
        assert refused(refusal, found, P2).writer is None


def test_foreign_commits_are_reported_one_by_one() -> None:
    """Each run by itself; only another run of the very query is a zombie of it."""
    held = {P0: by("q/old", 1), P1: by("other/run", 2), P2: Position(offset=3, metadata="tool")}
    ours = {tp: by("q/new", 10 + tp.partition) for tp in held}
    reported = list(EVENTS.finding(Discrepancy.FOREIGN, [P0, P1, P2], snapshot(held), {}, ours))
    assert all(isinstance(one, ForeignCommit) for one in reported)
    assert [
        (one.group_offsets, one.own_offsets, one.writer and one.writer.run_id, one.zombie)
        for one in reported
        if isinstance(one, ForeignCommit)
    ] == [
        (Offsets({P0: 1}), Offsets({P0: 10}), "old", True),
        (Offsets({P1: 2}), Offsets({P1: 11}), "run", False),
        (Offsets({P2: 3}), Offsets({P2: 12}), None, False),
    ]
