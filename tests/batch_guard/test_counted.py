"""The judgement of batches with sources that are not Kafka, by the number of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eo_listener.batch_guard.judge import OtherHeads
from eo_listener.errors import (
    GapError,
    GuardError,
    NewCheckpointError,
    NotInLedgerError,
    OverlapError,
    PartialReplayError,
    RegressionError,
)
from eo_listener.model.ledger import BatchVerdict, Head, LedgerKey
from eo_listener.model.planned_batch import BATCHES, CountedSources, PlannedBatch
from eo_listener.offsets import OffsetRange
from tests.foreach_batch.plans import P0, P1, Ranges, head_of, judged, plan_of, refused

NO_OTHERS = OtherHeads(sink="table delays", heads={})


def counted_plan(
    number: int, ranges: Ranges | None = None, *, life: str = "", **how: Any
) -> PlannedBatch:
    """Batch `number` of a query that reads a counted source, and `ranges` of Kafka.

    Another `life` has planned its batches at other times.
    """
    return plan_of(
        ranges or {},
        batch_id=number,
        sources={} if ranges is None else {1: {tp: OffsetRange(*r) for tp, r in ranges.items()}},
        counted=CountedSources(
            indices=(0,),
            plan_id=f"{life}{number}",
            before=f"{life}{number - 1}" if number else None,
        ),
        continued=frozenset({BATCHES} if number else ()),
        **how,
    )


def count_head(number: int, *, life: str = "", **how: Any) -> Head:
    """The head that batch `number` has left."""
    return head_of(number, number + 1, batch_id=number, topic_id=f"{life}{number}", **how)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_batch_follows_the_one_before_it(number: int) -> None:
    """The first makes the head; each next one moves it by one, and records its own plan."""
    heads = {BATCHES: count_head(number - 1)} if number else {}
    found = judged(counted_plan(number), heads, other_heads=NO_OTHERS)
    assert found.verdict is (BatchVerdict.NEXT if number else BatchVerdict.FIRST)
    assert found.entry.head(BATCHES) == Head(
        range=OffsetRange(number, number + 1),
        topic_id=str(number),
        query_id="q",
        run_id="r2",
        batch_id=number,
    )
    assert found.entry.moves[BATCHES].expected == heads.get(BATCHES)
    assert not found.gaps
    assert not found.skipped


def test_the_same_plan_is_a_replay() -> None:
    """A batch of the same number, checkpoint and plan was applied, whichever run did it."""
    found = judged(counted_plan(7), {BATCHES: count_head(7)})
    assert found.verdict is BatchVerdict.REPLAY
    assert not found.entry.moves
    assert found.replayed == {BATCHES: (7, 8)}


@pytest.mark.parametrize(
    ("number", "life", "head", "error", "batches"),
    [
        (7, "again", count_head(7), OverlapError, (7, 8)),  # planned a second time
        (8, "again", count_head(7), OverlapError, (7, 8)),  # follows one that was
        (6, "", count_head(7), RegressionError, (6, 8)),
        (0, "", count_head(7), RegressionError, (0, 8)),
        (9, "", count_head(7), GapError, (8, 9)),
        (7, "", count_head(7, query_id="old"), NewCheckpointError, (7, 8)),
        (0, "", count_head(7, query_id="old"), NewCheckpointError, (0, 1)),
        (8, "", count_head(7, query_id="old"), NewCheckpointError, (8, 9)),
        (3, "", None, NotInLedgerError, (0, 3)),
    ],
)
def test_whatever_does_not_follow_is_an_error_of_its_kind(
    number: int, life: str, head: Head | None, error: type[GuardError], batches: tuple[int, int]
) -> None:
    """Nothing is guessed of another checkpoint, another plan, or a batch that is missing."""
    heads = {} if head is None else {BATCHES: head}
    raised = refused(error, counted_plan(number, life=life), heads, other_heads=NO_OTHERS)
    assert raised.ranges == {BATCHES: batches}
    assert f"checkpoint:batches-0 {OffsetRange(*batches)}" in str(raised)
    assert raised.fix


CONSENT = "q after 7"
"""To have checkpoint "q" follow batch 7 of another one."""


def test_a_new_checkpoint_is_accepted_by_its_query_id_alone() -> None:
    """Consent holds for the one that was named: what is deleted later is not read twice by it."""
    old = {BATCHES: count_head(7, query_id="old")}
    first = counted_plan(0)
    for wrong in (None, "old", "another", "q", "another after 7", "q after 6"):
        with pytest.raises(NewCheckpointError, match=rf'\(sink, new_checkpoint="{CONSENT}"\)'):
            judged(first, old, other_heads=NO_OTHERS, new_checkpoint=wrong, on_first="accept")
    found = judged(first, old, other_heads=NO_OTHERS, new_checkpoint=CONSENT)
    assert found.verdict is BatchVerdict.FIRST
    assert found.entry.moves[BATCHES].expected == old[BATCHES]
    heads = {BATCHES: found.entry.head(BATCHES)}
    assert judged(first, heads, new_checkpoint=CONSENT).verdict is BatchVerdict.REPLAY
    assert judged(counted_plan(1), heads, new_checkpoint=CONSENT).verdict is BatchVerdict.NEXT
    with pytest.raises(NewCheckpointError):  # a driver of the old one, that still runs
        judged(counted_plan(8, query_id="old"), heads, new_checkpoint=CONSENT)


@pytest.mark.parametrize(
    ("head", "life"),
    [
        (6, ""),  # restored: what the old checkpoint had read in batch 7 would never be read
        (8, ""),  # a suspended driver has written batch 8, which the new one would read again
        (7, "again"),  # both: another batch 7
    ],
)
def test_a_consent_ends_when_the_sink_has_something_else(head: int, life: str) -> None:
    """Where a new checkpoint must begin depends on what the sink had when it was confirmed."""
    moved = {BATCHES: count_head(head, life=life, query_id="old")}
    with pytest.raises(NewCheckpointError, match=f'new_checkpoint="q after {life}{head}"'):
        judged(counted_plan(0), moved, other_heads=NO_OTHERS, new_checkpoint=CONSENT)


def test_a_new_checkpoint_that_is_under_way_has_batches_that_the_sink_lacks() -> None:
    """Accepted by its id, its earlier batches are a gap, unless they read nothing of this kind."""
    old = {BATCHES: count_head(7, query_id="old")}
    assert refused(GapError, counted_plan(3), old, new_checkpoint=CONSENT).ranges == {
        BATCHES: (0, 3)
    }
    found = judged(counted_plan(3), old, new_checkpoint=CONSENT, on_gap="accept")
    assert found.gaps == {BATCHES: (0, 3)}
    late = plan_of(
        {},
        batch_id=3,
        sources={},
        counted=CountedSources(indices=(0,), plan_id="3", before="2"),
    )
    assert not judged(late, old, new_checkpoint=CONSENT).gaps


@pytest.mark.parametrize(
    ("head", "consent", "batches"),
    [(count_head(4), {"on_gap": "accept"}, (5, 7)), (None, {"on_first": "accept"}, (0, 7))],
)
def test_what_is_missing_may_be_accepted_and_is_recorded(
    head: Head | None, consent: Mapping[str, Any], batches: tuple[int, int]
) -> None:
    """Batches that are not in the sink are recorded with the move that goes on without them."""
    heads = {} if head is None else {BATCHES: head}
    found = judged(counted_plan(7), heads, other_heads=NO_OTHERS, **consent)
    assert found.entry.moves[BATCHES].gap == batches
    assert (found.gaps if head else found.skipped) == {BATCHES: batches}


def test_rows_under_an_old_name_are_not_written_again() -> None:
    """The same checkpoint under another name of the sink: its batches are known by its query id."""
    key = LedgerKey("table delays", "old name")
    others = OtherHeads(sink="table delays", heads={key: {BATCHES: count_head(7)}})
    with pytest.raises(NotInLedgerError, match="already has it"):
        judged(counted_plan(7), {}, other_heads=others, on_first="accept")
    with pytest.raises(NotInLedgerError, match="the query under another"):
        judged(counted_plan(8), {}, other_heads=others)
    found = judged(counted_plan(8), {}, other_heads=others, on_first="accept")
    assert found.skipped == {BATCHES: (0, 8)}


def test_kafka_beside_it_is_judged_by_its_offsets() -> None:
    """A batch in which only one of them moves is next; a replay has both, or what moved."""
    heads = {BATCHES: count_head(6), P0: head_of(0, 5)}
    only_files, both = counted_plan(7, {P0: (5, 5)}), counted_plan(7, {P0: (5, 9)})
    assert set(judged(only_files, heads).entry.moves) == {BATCHES}
    moves = judged(both, heads).entry.moves
    assert {tp: move.source for tp, move in moves.items()} == {BATCHES: 0, P0: 1}
    after = {tp: judged(both, heads).entry.head(tp) for tp in moves}
    assert judged(both, after).verdict is BatchVerdict.REPLAY
    files_after = {**heads, BATCHES: count_head(7)}
    assert judged(only_files, files_after).verdict is BatchVerdict.REPLAY
    refused(GapError, counted_plan(7, {P0: (6, 9)}), heads)


@pytest.mark.parametrize("alone", [False, True])
def test_half_of_a_batch_is_never_taken_for_a_replay(alone: bool) -> None:
    """All of it is one transaction, also for a sink with one for each partition of Kafka."""
    plan = counted_plan(7, {P0: (5, 9), P1: (2, 3)})
    before = {BATCHES: count_head(6), P0: head_of(0, 5), P1: head_of(0, 2)}
    for done in ({BATCHES: count_head(7)}, {P0: head_of(5, 9, batch_id=7)}):
        refused(PartialReplayError, plan, {**before, **done}, per_partition=alone)
    assert set(judged(plan, before, per_partition=alone).entry.moves) == set(before)


def test_a_batch_of_state_alone_is_known_by_its_number_too() -> None:
    """No new file and no new offset: the batch counts all the same."""
    heads = {BATCHES: count_head(6), P0: head_of(0, 5)}
    plan = counted_plan(7, {P0: (5, 5)}, stateful=True)
    found = judged(plan, heads)
    assert found.verdict is BatchVerdict.NEXT
    heads[BATCHES] = found.entry.head(BATCHES)
    assert judged(plan, heads).verdict is BatchVerdict.REPLAY
    assert judged(counted_plan(0, stateful=True), {}).verdict is BatchVerdict.FIRST
