"""A million events merged in batches, the driver killed at random: each row is as it must be."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests import delta_lake, iceberg_jars
from tests.attack.exactly_once import judge, versions
from tests.attack.exactly_once.killer import Killer
from tests.attack.exactly_once.lives import PARTITIONS, Lives
from tests.attack.exactly_once.settings import Begin
from tests.attack.exactly_once.versions import Sent
from tests.cli.commands import run_apart
from tests.sinks.iceberg.lake import catalog_conf

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.campaign,
    pytest.mark.timeout(2400),
]

SEED = int(os.environ.get("EO_ATTACK_SEED", "0")) or random.randrange(1, 10**6)
EVENTS = int(os.environ.get("EO_TEST_EVENTS", "1000000"))
KILLS = int(os.environ.get("EO_TEST_KILLS", "20"))
BATCHES = 5 * KILLS // 2


@pytest.mark.parametrize("store", ["iceberg", "delta"])
def test_a_million_events_merged_while_the_driver_is_killed(
    begin: Begin, tmp_path: Path, store: str
) -> None:
    """Killed 20 times: the table is row by row the one computed from the events without Spark."""
    print(f"EO_ATTACK_SEED={SEED}")  # noqa: T201  # shown when it fails
    begun = time.monotonic()
    sink = {**versions.UPSERT, "partition_by": PARTITION_BY[store]}
    lives = begin(store, sink=sink, shape="versions", batch=EVENTS // BATCHES, retained=10)
    sent = versions.events(EVENTS, PARTITIONS, SEED)
    send(lives, sent)
    killer = Killer(lives, random.Random(SEED))
    while killer.kills < KILLS:
        killer.life()
    killer.finish()
    holding = lives.read()
    expected = versions.table(sent, lives.job.topic)
    wrong = versions.differences(holding.rows, expected)
    wrong += judge.at_the_end(holding, lives.ends(), lives.checkpoint(), lives.group())
    assert not wrong, wrong
    assert sum(lives.ends().values()) == EVENTS
    report(killer, len(expected), time.monotonic() - begun)
    code, document = run_apart(tmp_path, *audit(lives))
    assert code == 0, document
    assert "nothing doubled" in document["verdict"], document


PARTITION_BY = {"iceberg": "bucket(4, id)", "delta": ()}


def send(lives: Lives, sent: list[Sent]) -> None:
    settings = {"bootstrap.servers": lives.job.servers, "enable.idempotence": True}
    producer = Producer({**settings, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    for number, (partition, event) in enumerate(sent):
        producer.produce(lives.job.topic, event.value(), partition=partition)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def audit(lives: Lives) -> list[str]:
    """The words of the command that compares the four places."""
    job = lives.job
    if job.store == "delta":
        address, jars, settings = f"delta:{job.where}", delta_lake.jars(), {}
    else:
        address, jars = "iceberg:lake.db.delays", iceberg_jars.jars()
        settings = catalog_conf("lake", job.where)
    settings = {"spark.jars": ",".join(map(str, jars)), **settings}
    words = ["audit", "-c", job.checkpoint, "-b", job.servers, "-g", job.group]
    words += ["--ledger", address]
    for key, value in settings.items():
        words += ["--spark-conf", f"{key}={value}"]
    return words


def report(killer: Killer, rows: int, seconds: float) -> None:
    ended = killer.ended
    numbers = {
        "events": EVENTS,
        "rows": rows,
        "seconds": round(seconds),
        "kills": dict(killer.felled),
        "killed after": dict(killer.places),
        "batches": ended["BatchApplied"],
        "begun": killer.begun,
        "repeated and found in the ledger": ended["BatchReplayed"],
    }
    print(numbers)  # noqa: T201  # `-s` shows it
