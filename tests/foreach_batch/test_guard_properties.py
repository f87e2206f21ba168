"""The judgement held against the plainest reading of what was applied: sets of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eo_listener.foreach_batch.batch_guard import Judgement
from eo_listener.model.errors import GapError, GuardError
from eo_listener.model.ledger import BatchVerdict, Head
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from tests.foreach_batch.plans import P0, P1, head_of, judged, plan_of

SPANS = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (min(pair), max(pair)))
HEADS = st.dictionaries(st.sampled_from([P0, P1]), SPANS.map(lambda span: head_of(*span)))
PLANS = st.dictionaries(st.sampled_from([P0, P1]), SPANS, min_size=1)


@given(
    heads=HEADS,
    planned=PLANS,
    accept=st.booleans(),
    alone=st.booleans(),
    log_start=st.integers(0, 6),
)
def test_what_is_let_through_is_new_and_follows(
    heads: dict[TopicPartition, Head],
    planned: dict[TopicPartition, tuple[int, int]],
    accept: bool,
    alone: bool,
    log_start: int,
) -> None:
    """No offset that is applied is let through again, and none is skipped without a gap."""
    plan = plan_of(planned, log_starts=dict.fromkeys(planned, log_start))
    on_gap = "accept" if accept else "fail"
    try:
        found = judged(plan, heads, on_gap=on_gap, per_partition=alone)
    except GapError:
        accepted = accept
    except GuardError:
        return
    else:
        follows(found, plan, heads)
        assert alone or not (found.replayed and found.entry.moves)
        assert accept or not found.gaps
        return
    assert not accepted


def follows(found: Judgement, plan: PlannedBatch, heads: dict[TopicPartition, Head]) -> None:
    """Every move begins where its head ended, and each offset is either read or in a gap."""
    for tp, move in found.entry.moves.items():
        start = move.range.start if tp not in heads else heads[tp].range.until
        lost = range(*move.gap) if move.gap is not None else range(0)
        read = [offset for offset in range(*move.range) if offset not in lost]
        assert [*lost, *read] == list(range(start, move.range.until))
        if move.verdict is not None and move.gap is None:
            assert plan.log_starts[tp] <= move.range.start
    for tp, span in found.replayed.items():
        assert span == heads[tp].range or span.start == span.until


@given(heads=HEADS, planned=PLANS)
def test_what_was_applied_is_a_replay(
    heads: dict[TopicPartition, Head], planned: dict[TopicPartition, tuple[int, int]]
) -> None:
    """The same plan is let through once: with the heads it leads to it is a replay."""
    plan = plan_of(planned)
    try:
        entry = judged(plan, heads, on_gap="accept").entry
    except GuardError:
        return
    if not entry.moves:
        return
    again = judged(plan, heads | {tp: entry.head(tp) for tp in entry.moves})
    assert not again.entry.moves
    assert again.verdict is BatchVerdict.REPLAY or not any(
        span.start != span.until for span in plan.ranges().values()
    )
