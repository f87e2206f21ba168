"""The guard's judgement of one batch, a part of B8: its time, and how that grows.

    python -m benchmarks.guard [ROUNDS]

Nothing is started: plan and heads stand in memory, sorted, as Spark's JSON gives them. Each
size is judged as the next batch, as a replay, and as a batch in which one partition in a hundred
has a gap. Targets: 1 ms for 1,000 partitions, 10 ms for 10,000.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks.ratios import Figure, conclude, environment
from eo_listener.batch_guard.judge import judge_batch
from eo_listener.errors import GapError
from eo_listener.model.ledger import Head
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

SIZES = (100, 1_000, 10_000, 100_000)
TOPICS = 4
TARGETS = {1_000: 1.0, 10_000: 10.0}  # ms
Heads = dict[TopicPartition, Head]


def made(size: int, start: int) -> tuple[PlannedBatch, Heads]:
    """A plan that begins at `start`, and heads that end at 500, of so many partitions."""
    partitions = sorted(TopicPartition(f"topic-{n % TOPICS}", n // TOPICS) for n in range(size))
    spans = {tp: OffsetRange(start, start + 500) for tp in partitions}
    ids = {f"topic-{n}": f"id-{n}" for n in range(TOPICS)}
    plan = PlannedBatch(
        query_id="q",
        run_id="r",
        query="flights",
        batch_id=2,
        sources={0: spans},
        topic_ids=ids,
        log_starts=dict.fromkeys(partitions, 0),
        log_ends=dict.fromkeys(partitions, 10_000),
    )
    heads = {
        tp: Head(
            range=OffsetRange(0, 500), topic_id=ids[tp.topic], query_id="q", run_id="r", batch_id=1
        )
        for tp in partitions
    }
    return plan, heads


def following(size: int) -> Callable[[], object]:
    """A batch that is next."""
    plan, heads = made(size, 500)
    return lambda: judge_batch(plan, heads, name="flights", sink="a sink")


def replayed(size: int) -> Callable[[], object]:
    """A batch that was applied."""
    plan, heads = made(size, 0)
    return lambda: judge_batch(plan, heads, name="flights", sink="a sink")


def gapped(size: int) -> Callable[[], object]:
    """A batch with gaps."""
    plan, heads = made(size, 500)
    for tp in list(heads)[::100]:
        heads[tp] = Head(
            range=OffsetRange(0, 400), topic_id=None, query_id="q", run_id="r", batch_id=1
        )

    def judge() -> object:
        try:
            return judge_batch(plan, heads, name="flights", sink="a sink")
        except GapError as error:
            return error

    return judge


def spent(judge: Callable[[], object], rounds: int) -> float:
    """The median of some rounds, in ms of the processor: nothing in it waits."""
    times = []
    for number in range(rounds + 2):
        gc.collect()
        began = time.thread_time()
        judge()
        if number >= 2:  # the first ones warm up
            times.append(1000 * (time.thread_time() - began))
    return statistics.median(times)


def main(rounds: int = 25) -> None:
    table = Table("partitions", "next", "replay", "with gaps", "us a partition", "growth")
    figures: list[Figure] = []
    measured: dict[str, tuple[float, float, float]] = {}
    before: float | None = None
    for size in SIZES:
        next_one, replay, gaps = (
            spent(kind(size), rounds) for kind in (following, replayed, gapped)
        )
        each = 1000 * next_one / size
        growth = "" if before is None else f"x {next_one / before:.1f} for x 10"
        measured[str(size)] = next_one, replay, gaps
        if size in TARGETS:
            name = f"B8: one judgement, {size} partitions"
            figures.append(Figure(name=name, value=next_one, unit="ms", target=TARGETS[size]))
        table.add_row(
            f"{size:,}",
            *(f"{ms:.2f} ms" for ms in (next_one, replay, gaps)),
            f"{each:.2f}",
            growth,
        )
        before = next_one
    console = Console(width=110)
    console.print("one judgement, a part of B8, median of", rounds, table)
    conclude(console, "guard", environment(), (), figures, measured=measured)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
