"""Snapshots to draw."""

from __future__ import annotations

from eo_listener.model.lag import PartitionLag
from eo_listener.model.offsets import TopicPartition
from examples.demo.results import BatchResult, Delay
from examples.demo.snapshot import Snapshot
from tests.broker import GroupRow


def row(partition: int, current: int | None, end: int | None, topic: str = "flights") -> GroupRow:
    """Make a row as kafka-consumer-groups prints it."""
    return GroupRow(
        group="flights-demo",
        topic=topic,
        partition=partition,
        current_offset=current,
        log_end_offset=end,
        lag=None if current is None or end is None else end - current,
        consumer_id=None,
        host=None,
        client_id=None,
    )


def seen(partition: int, committed: int | None, end: int | None) -> PartitionLag:
    """Make a row as our reader sees it."""
    place = TopicPartition("flights", partition)
    return PartitionLag(partition=place, committed=committed, log_end=end, writer=None)


STARTING = Snapshot(step="starting Kafka", elapsed=2.0, wanted=336_776)

STREAMING = Snapshot(
    step="replaying the flights of 2013",
    elapsed=31.4,
    wanted=336_776,
    produced=120_000,
    counted=111_000,
    batches=tuple(BatchResult(number=n, rows=9_000 + n, seconds=0.9) for n in range(8, 20)),
    batch_count=20,
    partitions=(seen(0, 70_000, 75_000), seen(1, 35_000, 40_000), seen(2, None, 5_000)),
    commits=19,
    tool_rows=(row(0, 60_000, 74_000), row(1, 30_000, 39_000)),
    tool_ago=3.4,
    delays=(
        Delay(origin="EWR", hour=19, flights=5_976, cancelled=310, minutes=31.2),
        Delay(origin="JFK", hour=6, flights=9_000, cancelled=20, minutes=1.9),
        Delay(origin="LGA", hour=23, flights=2, cancelled=0, minutes=400.0),
    ),
)
