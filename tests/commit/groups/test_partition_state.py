"""One partition's decisions on offers, on snapshots, and on what the guard withholds."""

from __future__ import annotations

from functools import partial

import pytest

from eo_listener.commit.groups.partition_state import (
    Discrepancy,
    Finding,
    PartitionState,
)
from eo_listener.commit.groups.policy import OnRewind, Policy
from eo_listener.events import Refusal
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position
from tests.commit.positions import by, metadata_of

REFUSE, ALLOW = Policy(), Policy(on_rewind=OnRewind.ALLOW)
END = 100


marked = partial(by, run="r0", withheld=True)
"""What the guard of another run has left."""

by_sink = partial(by, by_sink=True)
"""What a sink has committed in the transaction of a batch."""


def fresh(offset: int) -> PartitionState:
    """A partition with its first offer."""
    state = PartitionState()
    state.offer(by(offset), REFUSE, recommit=False)
    return state


def settled(offset: int) -> PartitionState:
    """A partition whose offset was confirmed, with nothing left to do."""
    state = fresh(offset)
    state.confirm(by(offset), 0.0, 60.0)
    state.repeat = None
    return state


def sent(state: PartitionState, now: float = 0.0) -> tuple[int, CommitMetadata]:
    """The offset that is to be sent now, and its metadata."""
    position = state.sendable(now)
    assert position is not None
    return position.offset, metadata_of(position)


@pytest.mark.parametrize(
    ("found", "end", "findings", "sendable"),
    [
        (None, END, [], True),
        (by(4), END, [], True),
        (by(5, run="r0"), END, [], True),  # the same offset: our metadata goes over it
        (by(6, run="r0"), END, [Refusal.BELOW_GROUP], False),
        (Position(offset=6), END, [Refusal.BELOW_GROUP], False),  # a tool's
        (None, 4, [Refusal.BEYOND_LOG_END], False),
        (by(4), 5, [], True),  # the end of the log is no obstacle
        (marked(3), END, [Refusal.WITHHELD_BEFORE], False),
        (marked(6), END, [Refusal.WITHHELD_BEFORE], False),
    ],
)
def test_the_first_snapshot_decides(
    found: Position | None, end: int, findings: list[Finding], sendable: bool
) -> None:
    """A first offer is sent if the group is not above it, has no mark, and the log reaches it."""
    state = fresh(5)
    assert list(state.compare(found, end, REFUSE)) == findings
    assert (state.sendable(0.0) is not None) is sendable


@pytest.mark.parametrize(
    ("found", "discrepancies", "pending"),
    [
        (by(5), [], None),
        (None, [Discrepancy.VANISHED], by(5)),
        (by(3), [], by(5)),  # a late request of our own
        (by(3, run="r0"), [Discrepancy.FOREIGN], by(5)),
        (Position(offset=3), [Discrepancy.FOREIGN], by(5)),
        (by(7), [], None),  # our own, whose answer was lost
        (by(7, run="r2"), [Discrepancy.FOREIGN], None),
        (by(5, run="r2"), [Discrepancy.FOREIGN], None),
    ],
)
def test_later_snapshots_compare_with_what_was_confirmed(
    found: Position | None, discrepancies: list[Discrepancy], pending: Position | None
) -> None:
    """What is lost or lower is sent again; whoever else wrote is noticed, and never gone below."""
    state = settled(5)
    assert list(state.compare(found, END, REFUSE)) == discrepancies
    assert state.pending == pending


def test_a_refused_offset_is_reported_by_each_snapshot_and_goes_when_it_can() -> None:
    """Committed once the query has reached the group; reported until the end of its run."""
    state = fresh(5)
    for _ in range(2):
        assert list(state.compare(by(8, run="r0"), END, REFUSE)) == [Refusal.BELOW_GROUP]
    state.offer(by(7), REFUSE, recommit=False)
    assert state.sendable(0.0) is None
    state.offer(by(9), REFUSE, recommit=False)
    assert state.sendable(0.0) == by(9)


def test_a_rewind_is_declared_from_what_the_group_holds() -> None:
    """What waited beside it and was never sent is not what was taken back."""
    state = settled(5)
    state.offer(by(9), ALLOW, recommit=False)
    state.offer(by(3), ALLOW, recommit=False)
    offset, metadata = sent(state)
    assert (offset, metadata.rewound_from) == (3, 5)


def test_what_is_lower_or_lost_does_not_displace_what_waits() -> None:
    """The newer offset is sent, not the one that was confirmed before."""
    for found in (by(3), None):
        state = settled(5)
        state.offer(by(7), REFUSE, recommit=False)
        list(state.compare(found, END, REFUSE))
        assert state.sendable(0.0) == by(7)


@pytest.mark.parametrize("found", [None, by(3), by(3, run="r0"), Position(offset=3)])
def test_what_is_lost_does_not_displace_what_is_beyond_the_log_end(found: Position | None) -> None:
    """What was confirmed goes at once, and the newer offset when the log has reached it."""
    state = settled(5)
    state.offer(by(8), REFUSE, recommit=False)
    assert list(state.compare(by(5), 6, REFUSE)) == [Refusal.BEYOND_LOG_END]
    for _ in range(2):  # the first commit may fail
        assert Refusal.BEYOND_LOG_END in set(state.compare(found, 6, REFUSE))
        assert (state.sendable(0.0), state.refused) == (by(5), by(8))
    state.confirm(by(5), 0.0, 60.0)
    assert list(state.compare(by(5), 6, REFUSE)) == [Refusal.BEYOND_LOG_END]
    assert (state.sendable(0.0), state.refused) == (None, by(8))
    assert list(state.compare(by(5), 8, REFUSE)) == []
    assert (state.sendable(0.0), state.refused) == (by(8), None)


def test_a_truncation_below_both_keeps_the_newer_offset() -> None:
    """Of two that lie beyond the log end the newer one waits."""
    state = settled(5)
    state.offer(by(8), REFUSE, recommit=False)
    list(state.compare(by(5), 6, REFUSE))
    list(state.compare(None, 6, REFUSE))
    list(state.compare(None, 4, REFUSE))
    assert (state.sendable(0.0), state.refused) == (None, by(8))


@pytest.mark.parametrize(
    ("policy", "query", "rivals", "goes"),
    [
        (REFUSE, "q1", False, False),
        (REFUSE, "q2", False, False),
        (REFUSE, "q1", True, False),
        (ALLOW, "q1", False, True),
        (ALLOW, "q2", False, True),  # a new checkpoint: the one before is over
        (ALLOW, "q1", True, True),
        (ALLOW, "q2", True, False),  # a slower query beside another
    ],
)
def test_what_may_go_back(policy: Policy, query: str, rivals: bool, goes: bool) -> None:
    """A lower offset is refused, except of a query that was rewound where rewinds are allowed."""
    state = settled(5)
    state.offer(by(3, run="r2", query=query), policy, recommit=False, rivals=rivals)
    assert state.snapshot_due(policy) == 0.0
    findings = list(state.compare(by(5), END, policy))
    assert findings == ([] if goes else [Refusal.BELOW_GROUP])
    if goes:
        offset, metadata = sent(state)
        assert (offset, metadata.rewound_from) == (3, 5)
    else:
        assert state.sendable(0.0) is None


def test_accepted_marks_are_passed() -> None:
    """With the guard on "warn", what an earlier run withheld is committed over."""
    state = fresh(5)
    assert list(state.compare(marked(3), END, Policy(accept_marks=True))) == []
    assert state.sendable(0.0) == by(5)


def test_withheld_lets_through_what_came_before_and_marks_it() -> None:
    """The last good offset is committed with the mark, later ones are not taken in."""
    state = fresh(5)
    state.withhold(by(9).metadata)
    state.offer(by(9), REFUSE, recommit=False)
    offset, metadata = sent(state)
    assert (offset, metadata.withheld) == (5, True)


def test_of_a_log_that_moves_at_each_snapshot_the_newest_starts_are_kept() -> None:
    """Some twenty of them: a bound, with minutes of retention in it."""
    state = PartitionState()
    for number in range(1000):
        state.record_log_start(number, 5.0 * number)
    assert 15 <= len(state.log_starts) <= 25
    assert state.log_start(5.0 * 985) == 985
    assert state.log_start(0.0) is None


def test_only_what_was_to_be_done_can_be_missed() -> None:
    """A partition that is gone fails what waits for it, and nothing else."""
    assert not settled(5).partition_missing()
    assert not PartitionState().partition_missing()
    assert fresh(5).partition_missing()
    refused = settled(5)
    refused.refused = by(9)
    assert refused.partition_missing()
    marking = PartitionState()
    marking.withhold(by(5).metadata)
    assert marking.partition_missing()
    repeated = settled(5)
    repeated.repeat = 60.0
    repeated.needs_snapshot = True
    assert not repeated.partition_missing()
    assert repeated.next_try(REFUSE) is None


def test_of_what_is_withheld_only_a_recommit_sends_anything() -> None:
    """Newer offers change nothing; what was confirmed is renewed, the mark goes first."""
    state = settled(5)
    state.withhold(by(7).metadata)
    mark = state.pending
    assert mark is not None
    state.offer(by(9), REFUSE, recommit=True)
    assert state.pending == mark
    state.confirm(mark, 10.0, 60.0)
    state.repeat = None
    state.offer(by(9), REFUSE, recommit=False)
    assert state.sendable(20.0) is None
    state.offer(by(9), REFUSE, recommit=True)
    assert state.sendable(20.0) == mark


def test_what_somebody_else_moved_on_is_no_rewind() -> None:
    """Where rewinds are allowed, another writer's higher offset still stops a newer one of ours."""
    state = settled(5)
    state.offer(by(7), ALLOW, recommit=False)
    assert Refusal.BELOW_GROUP in list(state.compare(by(9, run="r2"), END, ALLOW))
    assert state.sendable(0.0) is None


@pytest.mark.parametrize(
    ("policy", "findings"),
    [(REFUSE, [Refusal.BELOW_GROUP]), (ALLOW, [])],
)
def test_a_mark_of_a_sink_does_not_hide_an_older_checkpoint(
    policy: Policy, findings: list[Finding]
) -> None:
    """The sink of an earlier run has batches that this run has never planned."""
    state = PartitionState()
    state.offer(by(5), policy, recommit=False)
    assert [*state.compare(by_sink(90, run="r0", batch=9), END, policy)] == findings
    assert (state.sendable(0.0) is None) is bool(findings)
    again = PartitionState()
    again.offer(by(5), policy, recommit=False)
    in_doubt = by_sink(6, run="r0", batch=1)
    assert [*again.compare(in_doubt, END, policy)] == [Discrepancy.BY_SINK]


def test_what_a_sink_has_committed_is_renewed_as_it_is() -> None:
    """So that it does not expire: the same position, once."""
    state = fresh(5)
    assert [*state.compare(by_sink(6), END, REFUSE)] == [Discrepancy.BY_SINK]
    state.offer(by(6), REFUSE, recommit=True)
    assert [*state.compare(by_sink(6), END, REFUSE)] == [Discrepancy.BY_SINK]
    assert state.sendable(1.0) == by_sink(6)
    state.confirm(by_sink(6), 1.0, 60.0)
    assert state.sendable(100.0) is None
    assert state.next_try(REFUSE) is None


def test_a_run_without_the_sink_commits_by_itself_again() -> None:
    """As before a sink had the group: what it confirmed it knows, and a loss of it is reported."""
    state = fresh(5)
    assert [*state.compare(by_sink(5), END, REFUSE)] == [Discrepancy.BY_SINK]
    state.offer(by(6, run="r2"), REFUSE, recommit=False)
    assert state.snapshot_due(REFUSE) == 0.0
    assert [*state.compare(by_sink(5), END, REFUSE)] == []
    state.snapshot_at = 1.0
    state.confirm(by(6, run="r2"), 1.0, 60.0)
    assert state.confirmed == by(6, run="r2")
    state.offer(by(7, run="r2"), REFUSE, recommit=False)
    assert state.snapshot_due(REFUSE) > 1.0
    state.confirm(by(7, run="r2"), 2.0, 60.0)
    assert [*state.compare(None, END, REFUSE)] == [Discrepancy.VANISHED]


def test_a_sink_of_the_next_run_has_the_group_too() -> None:
    """The group is asked once more, and shows it."""
    state = fresh(5)
    assert [*state.compare(by_sink(5), END, REFUSE)] == [Discrepancy.BY_SINK]
    for run, offset in (("r2", 6), ("r2", 7), ("r3", 7)):
        state.offer(by(offset, run=run), REFUSE, recommit=False)
        assert state.snapshot_due(REFUSE) == 0.0
        assert [*state.compare(by_sink(offset, run=run), END, REFUSE)] == [Discrepancy.BY_SINK]
        assert state.sendable(1.0) is None
        state.snapshot_at = 1.0


def test_a_sink_of_another_query_is_foreign() -> None:
    """One group, two queries: named as ever."""
    other = by_sink(6, query="q2")
    assert [*settled(5).compare(other, END, REFUSE)] == [Discrepancy.FOREIGN]
    assert [*fresh(5).compare(other, END, REFUSE)] == [Refusal.BELOW_GROUP]


def test_the_guards_mark_goes_over_what_a_sink_has_committed() -> None:
    """The guard withholds what it must, whoever commits."""
    state = PartitionState()
    state.withhold(by(9).metadata)
    assert [*state.compare(by_sink(5), END, REFUSE)] == []
    offset, metadata = sent(state)
    assert (offset, metadata.withheld) == (5, True)
