"""The committer alone, against a real broker: one commit (B2), and a thousand queries (B12).

    python -m benchmarks.committer [QUERIES] [GROUPS] [SECONDS]

B2 sends the same map of 100 partitions by the product's own store and by a bare AdminClient, in
turns. B12 feeds the router with the progress events of many queries of 100 partitions each, an
event of each every 30 seconds, evenly spread; queries of one group read topics of their own.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from collections import Counter
from typing import Any

import psutil
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmarks.ratios import Figure, Ratio, conclude, environment, print_table
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.group_names import GroupNames
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.events import Committed, Event, Observers
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import LivePosition
from eo_listener.offsets import Position, TopicPartition
from eo_listener.testing import MemoryQueries
from tests.broker import DEFAULT, Broker
from tests.topics import Topics

PARTITIONS = 100
PERIOD = 30.0
TOPIC = "bench-0"


def fill(servers: str, topic: str, records: int) -> None:
    """Create a topic, and give every partition so many records."""
    Topics(servers).create_as(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for _ in range(records):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(60) == 0


def one_commit(servers: str, rounds: int) -> Ratio:
    """Ours / bare, of medians of 50 commits each, in turns (A B B A)."""
    store = SimpleGroups({"bootstrap.servers": servers})
    admin = AdminClient({"bootstrap.servers": servers})
    number = 0

    def ours() -> None:
        positions = {
            TopicPartition(TOPIC, p): Position(offset=number, metadata="x" * 60)
            for p in range(PARTITIONS)
        }
        assert set(store.commit("b2-ours", positions, timeout=10).values()) == {None}

    def bare() -> None:
        wire = [Wire(TOPIC, p, number, "x" * 60) for p in range(PARTITIONS)]
        asked = ConsumerGroupTopicPartitions("b2-bare", wire)
        admin.alter_consumer_group_offsets([asked])["b2-bare"].result(timeout=10)

    def median(arm: Any) -> float:
        nonlocal number
        times = []
        for _ in range(50):
            number += 1
            began = time.perf_counter()
            arm()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    for arm in (ours, bare):
        for _ in range(3):  # the first requests to a cold coordinator fail, or take long
            try:
                arm()
                break
            except Exception:  # noqa: BLE001  # whatever it is, it is only the warm-up
                time.sleep(1)
        median(arm)
    turns = [[median(arm) for arm in (ours, bare, bare, ours)] for _ in range(rounds)]
    store.close()
    mine = [time for turn in turns for time in (turn[0], turn[3])]
    theirs = [time for turn in turns for time in (turn[1], turn[2])]
    return Ratio.of("B2: our commit / bare alter", mine, theirs, 1.05, at_most=True)


class Script:
    """The progress events of one query in Spark's JSON, made at almost no cost."""

    def __init__(self, query: int, topic: str) -> None:
        start = {topic: {str(p): "START" for p in range(PARTITIONS)}}
        end = {topic: {str(p): "END" for p in range(PARTITIONS)}}
        description = f"KafkaV2[Subscribe[{topic}]]"
        self._text = json.dumps(
            {
                "id": str(uuid.UUID(int=query)),
                "runId": str(uuid.UUID(int=query)),
                "name": f"query-{query}",
                "batchId": "START",
                "timestamp": "2026-01-01T00:00:00.000Z",
                "durationMs": {"latestOffset": 1},
                "sources": [{"description": description, "startOffset": start, "endOffset": end}],
            }
        )

    def event(self, batch: int) -> str:
        """The event of one batch."""
        return self._text.replace('"START"', str(batch)).replace('"END"', str(batch + 1))


def many_queries(servers: str, queries: int, groups: int, seconds: float) -> dict[str, float]:
    """Feed events for `seconds` after a warm-up of one period; measure this process."""
    sent: dict[tuple[str, str], float] = {}
    latencies: list[float] = []

    events: Counter[str] = Counter()

    def observe(event: Event) -> None:
        events[type(event).__name__] += 1
        if isinstance(event, Committed):
            keys = [(event.group, topic) for topic in event.offsets.topics()]
            times = [sent.pop(key) for key in keys if key in sent]
            latencies.extend(time.monotonic() - begun for begun in times)

    options = {0: {"kafka.bootstrap.servers": servers}}
    live = MemoryQueries(options)
    begun = LivePosition(batch_id=-1, committed={})
    live.positions |= {str(uuid.UUID(int=number)): begun for number in range(queries)}
    names = GroupNames(groups={f"query-{n}": f"group-{n % groups}" for n in range(queries)})
    observers = Observers(observe)
    committer = Committer(
        lambda cluster: SimpleGroups(dict(cluster.properties)), observers=observers
    )
    router = TrackerThread(GroupRouting(names=names), live, committer, observers)
    scripts = [Script(number, f"bench-{number // groups}") for number in range(queries)]
    process = psutil.Process()
    started = time.monotonic()
    cpu = began_measuring = 0.0
    number, longest = 0, 0.0
    while (elapsed := time.monotonic() - started) < PERIOD + seconds:
        if not began_measuring and elapsed >= PERIOD:
            began_measuring, cpu = time.monotonic(), time.process_time()
            latencies.clear()
        query, batch = number % queries, number // queries
        topic = f"bench-{query // groups}"
        text = scripts[query].event(batch)
        began = time.perf_counter()
        progress = Progress.parse(text)
        sent[f"group-{query % groups}", topic] = time.monotonic()
        router.put(progress)
        longest = max(longest, time.perf_counter() - began)
        number += 1
        time.sleep(max(0.0, started + number * PERIOD / queries - time.monotonic()))
    measured = time.monotonic() - began_measuring
    cpu = time.process_time() - cpu
    router.flush(time.monotonic() + 20)
    committer.flush(20)
    result = {
        "queries": queries,
        "groups": groups,
        "commits": len(latencies),
        "cpu_percent_of_a_core": 100 * cpu / measured,
        "lag_p50_s": statistics.median(latencies),
        "lag_p99_s": statistics.quantiles(latencies, n=100)[98],
        "longest_hand_over_ms": 1000 * longest,
        "rss_mb": process.memory_info().rss / 1e6,
        "threads": process.num_threads(),
        **events,
    }
    router.close(time.monotonic() + 10)
    committer.close(30)
    return result


def main(queries: int = 1000, groups: int = 100, seconds: int = 60) -> None:
    console = Console()
    with Broker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx2g"]) as broker:
        servers = broker.bootstrap_servers
        fill(servers, TOPIC, 1200)
        for number in range(1, -(-queries // groups)):
            fill(servers, f"bench-{number}", 20)
        ratio = one_commit(servers, 4)
        result = many_queries(servers, queries, groups, seconds)
    print_table(console, "one commit: median of paired ratios", [ratio])
    console.print("B12:", result)
    figures = [
        Figure(
            name="B12: CPU", value=result["cpu_percent_of_a_core"], unit="% of a core", target=5
        ),
        Figure(name="B12: p99 of the lag", value=result["lag_p99_s"], unit="s", target=2),
    ]
    about = {**environment(), "kafka": DEFAULT}
    conclude(console, "committer", about, [ratio], figures, measured=result)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
