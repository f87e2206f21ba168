"""Whatever happens to drivers and to the store, no range is applied twice, and none is skipped."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from eo_listener.model.errors import SinkError
from eo_listener.model.offsets import TopicPartition
from eo_listener.testing import MemorySink, MemoryStore, SinkFault
from tests.foreach_batch.stage import P0, P1, Crash, Plans, Stage, crashing
from tests.foreach_batch.test_batch_runner import POINTS

STEPS = st.dictionaries(st.sampled_from([P0, P1]), st.integers(0, 3), min_size=1)
TROUBLES = st.lists(
    st.one_of(
        st.none(),
        st.sampled_from(SinkFault),
        st.tuples(st.sampled_from(POINTS), st.integers(1, 3)),
    ),
    max_size=8,
)
Trouble = SinkFault | tuple[str, int] | None


def planned(steps: Sequence[dict[TopicPartition, int]]) -> Plans:
    """Batches that follow one another, each as long as its step."""
    ranges: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    reached: dict[TopicPartition, int] = {}
    for number, step in enumerate(steps):
        known = {*reached, *step}
        starts = {tp: reached.get(tp, 0) for tp in known}
        reached = {tp: starts[tp] + step.get(tp, 0) for tp in known}
        ranges[number] = {tp: (starts[tp], reached[tp]) for tp in sorted(known)}
    return Plans(ranges)


@given(
    steps=st.lists(STEPS, min_size=1, max_size=4),
    troubles=TROUBLES,
    sinks=st.integers(1, 2),
    per_partition=st.booleans(),
)
def test_every_offset_is_there_once(
    steps: list[dict[TopicPartition, int]],
    troubles: list[Trouble],
    sinks: int,
    per_partition: bool,
) -> None:
    """Spark repeats a batch until it is through; then each sink has each offset once, in order."""
    plans, store, left = planned(steps), MemoryStore(lock_timeout=0.0), list(troubles)
    keys = ("a", "b")[:sinks]
    for number in plans.ranges:
        while not _through(plans, number, left, sinks=_sinks(store, keys, alone=per_partition)):
            pass
    for key in keys:
        for tp, (_, until) in plans.ranges[len(steps) - 1].items():
            rows = [r["offset"] for r in store.rows.get(key, []) if r["partition"] == tp.partition]
            assert rows == list(range(until))


def _sinks(store: MemoryStore, keys: Sequence[str], *, alone: bool) -> list[MemorySink]:
    return [MemorySink(store, key=key, per_partition=alone) for key in keys]


def _through(plans: Plans, number: int, left: list[Trouble], *, sinks: list[MemorySink]) -> bool:
    """Run a batch by a new driver, which meets the next trouble; whether it got through."""
    trouble = left.pop(0) if left else None
    if isinstance(trouble, SinkFault):
        sinks[number % len(sinks)].faults.append(trouble)
    point, nth = trouble if isinstance(trouble, tuple) else ("", 1)
    try:
        with crashing(point, nth=nth):
            Stage(plans, list(sinks)).run(number)
    except (Crash, SinkError):
        return False
    return True
