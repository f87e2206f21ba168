"""The offsets at which a checkpoint began, compared with the offsets of its group."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.events import CommitRefused, GuardViolation, Refusal, ViolationKind
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Offsets, Position, TopicPartition
from tests.commit.tracking.memory_tracking import (
    OPTIONS,
    P0,
    P1,
    U0,
    MemoryTracking,
    event,
    marked,
    position,
    source,
    tracker,
)

LOSSY = {0: {**OPTIONS[0], "failondataloss": "false"}}
Ranges = list[tuple[ViolationKind, TopicPartition, int, int]]
GAP = (ViolationKind.NEVER_READ, P0, 18, 26)


def hold(tracking: MemoryTracking, offset: int, query: str | None, tp: TopicPartition = P0) -> None:
    """Let the group hold an offset of this query, or of another program."""
    text = ""
    if query is not None:
        text = CommitMetadata.for_batch(name=None, query_id=query, run_id="r0", batch_id=7).text()
    tracking.store.groups.setdefault("g", {})[tp] = Position(offset=offset, metadata=text)


def ranges(tracking: MemoryTracking) -> Ranges:
    """The kinds and offsets of all violations."""
    return [
        (violation.kind, violation.partition, violation.start, violation.until)
        for reported in tracking.of(GuardViolation)
        for violation in reported.violations
    ]


@pytest.mark.parametrize(
    ("offset", "writer", "begins", "batch", "log_start", "reported"),
    [
        (18, "q0", 26, 0, 0, [GAP]),
        (18, None, 26, 0, 0, [GAP]),  # a consumer of another program
        (18, "q0", 26, 0, 22, [(ViolationKind.LOST, P0, 18, 22), (*GAP[:2], 22, 26)]),
        (18, "q0", 26, 0, 26, [(ViolationKind.LOST, P0, 18, 26)]),
        (18, "q0", 26, 5, 0, [GAP]),  # a listener that was added late
        (18, None, 26, 5, 0, []),  # somebody may have reset the group since
        (18, "q1", 26, 0, 0, []),  # this checkpoint has been accepted before
        (26, "q0", 26, 0, 0, []),
        (27, None, 26, 0, 0, []),
        (26, None, 26, 0, 30, []),  # records were deleted since
        (None, None, 26, 0, 26, []),
        (18, "q0", None, 0, 0, []),  # the query cannot be asked
    ],
)
@pytest.mark.parametrize("guard", GuardMode)
def test_a_first_batch_is_compared_with_the_group(
    opened: list[MemoryTracking],
    offset: int | None,
    writer: str | None,
    begins: int | None,
    batch: int,
    log_start: int,
    reported: Ranges,
    guard: GuardMode,
) -> None:
    """Nothing has read the records between the group's offset and the checkpoint's beginning."""
    tracking = tracker(opened, guard)
    tracking.store.starts[P0] = log_start
    if offset is not None:
        hold(tracking, offset, writer)
    if begins is not None:
        tracking.queries.starts["r1"] = {0: Offsets({P0: begins})}
    first = event(batch, 26 if batch else None, 30)
    tracking.hear(0.0, first, first)  # it comes twice
    tracking.hear(1.0, event(batch + 1, 30, 40))
    assert ranges(tracking) == reported
    withheld = guard is GuardMode.WITHHOLD and reported[-1:] != [] and reported[-1][0] is GAP[0]
    assert [each.withheld for each in tracking.of(GuardViolation)] == [withheld] * bool(reported)
    assert (tracking.held, marked(tracking)) == ((offset, True) if withheld else (40, False))


def test_a_position_is_compared_as_an_event_is(tracking: MemoryTracking) -> None:
    """The tracker asks the query before its first event comes."""
    hold(tracking, 18, "q0")
    tracking.queries.starts["r1"] = {0: Offsets({P0: 26})}
    tracking.queries.positions["r1"] = position(0, 30)
    tracking.start(0.0, "r1")
    tracking.serve(0.2)
    assert (ranges(tracking), tracking.held, marked(tracking)) == ([GAP], 18, True)
    tracking.hear(1.0, event(0, None, 30), event(1, 30, 40))
    assert (ranges(tracking), tracking.held) == ([GAP], 18)


@pytest.mark.parametrize(("guard", "offset"), [(GuardMode.WITHHOLD, 18), (GuardMode.WARN, 50)])
def test_a_restart_changes_nothing_until_it_accepts(
    opened: list[MemoryTracking], guard: GuardMode, offset: int
) -> None:
    """The mark outlives the driver; only `guard="warn"` commits the offsets behind it."""
    first = tracker(opened)
    hold(first, 18, "q0")
    first.queries.starts["r1"] = {0: Offsets({P0: 26})}
    first.hear(0.0, event(0, None, 30))
    second = tracker(opened, guard)
    second.store.groups.update(first.store.groups)
    second.queries.starts["r2"] = {0: Offsets({P0: 26})}
    second.hear(0.0, event(1, 30, 50, run="r2"))
    assert (ranges(second), second.held) == ([], offset)
    refused = [each.refusal for each in second.of(CommitRefused)]
    assert refused == ([Refusal.WITHHELD_BEFORE] if offset == 18 else [])


def test_other_partitions_go_on(opened: list[MemoryTracking]) -> None:
    """Of two sources, only the partitions with a gap are withheld; each source is reported."""
    tracking = tracker(opened, options={0: OPTIONS[0], 1: OPTIONS[0]})
    for tp in (P0, P1, U0):
        hold(tracking, 18, "q0", tp)
    tracking.queries.starts["r1"] = {0: Offsets({P0: 26, P1: 18}), 1: Offsets({U0: 20})}
    more = (source(1, None, {U0: 33}),)
    tracking.hear(0.0, event(0, None, {P0: 30, P1: 31}, more=more))
    assert ranges(tracking) == [GAP, (ViolationKind.NEVER_READ, U0, 18, 20)]
    assert [each.source for each in tracking.of(GuardViolation)] == [0, 1]
    assert [tracking.at(tp) for tp in (P0, P1, U0)] == [18, 31, 18]


def test_a_query_that_shares_a_partition_is_compared_when_it_is_alone(
    tracking: MemoryTracking,
) -> None:
    """While a slower query reads the records before, the group does not pass them."""
    tracking.queries.starts["r2"] = {0: Offsets({P0: 100})}
    tracking.hear(0.0, event(0, None, 10), event(0, None, 120, run="r2", query="q2"))
    tracking.hear(1.0, event(1, 120, 130, run="r2", query="q2"))
    assert (ranges(tracking), tracking.held) == ([], 10)
    tracking.end(2.0, "r1")
    assert ranges(tracking) == [(ViolationKind.NEVER_READ, P0, 10, 100)]
    assert (tracking.held, marked(tracking)) == (10, True)


@pytest.mark.parametrize(
    ("new", "log_start", "offset", "options", "reported"),
    [
        (P1, 50, None, LOSSY, [(ViolationKind.LOST, P1, 0, 50)]),
        (P1, 90, None, LOSSY, [(ViolationKind.LOST, P1, 0, 60)]),  # nothing beyond was read
        (P1, 50, 30, LOSSY, [(ViolationKind.LOST, P1, 30, 50)]),
        (P1, 50, 50, LOSSY, []),
        (P1, 0, None, LOSSY, []),
        (P1, 50, None, OPTIONS, []),  # Spark itself fails the query then
        (U0, 50, None, LOSSY, []),  # a topic that is older than the query
    ],
)
@pytest.mark.parametrize("batch", [0, 4])
def test_the_deleted_beginning_of_a_new_partition_is_lost(
    opened: list[MemoryTracking],
    new: TopicPartition,
    log_start: int,
    offset: int | None,
    options: Mapping[int, Mapping[str, str]],
    reported: Ranges,
    batch: int,
) -> None:
    """It is due from offset 0, also if the run's past is unknown; the group stays before it."""
    tracking = tracker(opened, options=options)
    tracking.store.starts[new] = log_start
    if offset is not None:
        hold(tracking, offset, "q0", new)
    if batch == 0:
        tracking.hear(0.0, event(0, None, 5))
    tracking.hear(
        1.0,
        event(batch + 1, 5, {P0: 9, new: 55}),
        event(batch + 2, {P0: 9, new: 55}, {P0: 12, new: 60}),
    )
    assert ranges(tracking) == reported
    assert tracking.held == 12
    stays = reported[0][2] if reported else 60
    assert (tracking.at(new), marked(tracking, new)) == (stays, bool(reported))
