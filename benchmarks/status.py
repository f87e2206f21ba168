"""What `eo-listener status` takes for many groups, beside Kafka's own kafka-consumer-groups.

    python -m benchmarks.status [ROUNDS] [GROUPS] [PARTITIONS]

A broker holds so many groups of so many partitions, 200 of 100 by default, each with lag. In turns
each program is started anew and prints all groups, as somebody types it; reported are medians, in
seconds, and the ratio. Target: under 3 s for 200 groups of 100 partitions.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmarks.ratios import Figure, Ratio, conclude, environment
from tests.broker import Broker, Release
from tests.topics import Topics

TARGET = 3.0  # seconds
_AT_ONCE = 50  # groups whose offsets are set together


def fill(servers: str, groups: int, partitions: int) -> str:
    """A topic with a record in each partition, and groups that have read none of them."""
    topic = Topics(servers).create(partitions=partitions)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(partitions):
        producer.produce(topic, b"record", partition=number)
    assert producer.flush(60) == 0
    admin = AdminClient({"bootstrap.servers": servers})
    left = [f"group-{number}" for number in range(groups)]
    while left:  # a new broker's coordinators load for a while
        asked = {
            group: admin.alter_consumer_group_offsets([offsets_of(group, topic, partitions)])[group]
            for group in left[:_AT_ONCE]
        }
        done = {
            group
            for group, answer in asked.items()
            if all(one.error is None for one in answer.result(60).topic_partitions)
        }
        left = [group for group in left if group not in done]
    return topic


def offsets_of(group: str, topic: str, partitions: int) -> ConsumerGroupTopicPartitions:
    """The first offset of each partition, as the AdminClient is given them."""
    offsets = [KafkaTopicPartition(topic, number, 0) for number in range(partitions)]
    return ConsumerGroupTopicPartitions(group, offsets)


def timed(program: list[str], topic: str, times: int) -> float:
    """How long it took, in seconds; it must have named the topic once for each partition."""
    began = time.perf_counter()
    ran = subprocess.run(program, capture_output=True, text=True, check=False, timeout=600)
    took = time.perf_counter() - began
    named = ran.stdout.count(topic)
    assert named >= times, (named, times, ran.stdout[:800], ran.stderr[-2000:])
    return took


def main(rounds: int, groups: int, partitions: int) -> None:
    console = Console()
    with Broker() as broker:
        servers = broker.bootstrap_servers
        topic = fill(servers, groups, partitions)

        programs = {
            "ours": [sys.executable, "-m", "eo_listener", "status", "--json", "-b", servers, "*"],
            "theirs": Release().consumer_groups(servers, "--describe", "--all-groups"),
        }
        took: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(-1, rounds):  # the first one warms the file cache up
            for name, program in programs.items():
                seconds = timed(program, topic, groups * partitions)
                if number >= 0:
                    took[name].append(seconds)
    ratio = Ratio.of(
        "status / kafka-consumer-groups", took["ours"], took["theirs"], 1.0, at_most=True
    )
    own, other = (statistics.median(took[name]) for name in ("ours", "theirs"))
    console.print(
        f"{groups} groups of {partitions} partitions, medians of {rounds}: eo-listener status "
        f"{own:.2f} s (asked: {TARGET:.0f}), kafka-consumer-groups --all-groups {other:.2f} s, "
        f"ratio {ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
        soft_wrap=True,
    )
    figures = [Figure(name="eo-listener status", value=own, unit="s", target=TARGET)]
    conclude(console, "status", environment(), [ratio], figures, measured={"seconds": took})


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    main(*(given + [5, 200, 100][len(given) :]))
