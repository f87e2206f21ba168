"""A driver that was suspended while a successor took over: when it goes on, it writes nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from eo_listener.model.ledger import Unexpected
from tests.attack.exactly_once.lives import END, OF_ICEBERG, OF_KAFKA, OF_LETTERS, POINTS, Lives
from tests.attack.exactly_once.settings import Begin
from tests.attack.zombies import Puppet

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.campaign]

IN_TRANSACTION = [
    "sink.begun",
    "sink.copying",
    "sink.rows-written",
    "sink.ledger-moved",
    "sink.commit-sent",
]
UNFENCED = ["sink.begun", "sink.copying", "sink.rows-written", "sink.committed"]
SENT_AGAIN = ("sink.begun", "sink.copying")  # what follows is sent, whoever has done so
ELSEWHERE = [point for point in POINTS if point not in (*IN_TRANSACTION, *OF_KAFKA, *OF_LETTERS)]
POSTGRES = ["postgres driver", "postgres staging", "postgres partition"]
ENDED = ("drained", "failed")
# What stops a zombie: our guard or our sink; or Spark, which finds a batch of another driver's in
# its checkpoint.
OURS = r"(ForeignWriter|Regression|Overlap|Gap|MixedReplay|Sink)\w*Error"
SPARKS = "CONCURRENT_STREAM_LOG_UPDATE|[Mm]ultiple streaming queries|already committed|NO_BATCH_ID"


def held(lives: Lives, point: str) -> Puppet:
    """A driver that is suspended at its second batch, with more to come."""
    if not lives.reaches(point):
        pytest.skip("this store, or this setting, has no such step")
    lives.fill(lives.job.batch)
    zombie = lives.armed(point, 2, "stop", log="zombie")
    try:
        zombie.await_that(zombie.frozen, END, f"standstill at {point}")
    except BaseException:
        zombie.kill()
        raise
    return zombie


def fail_late(zombie: Puppet) -> None:
    """It goes on, and ends with a typed error."""
    heard = len(zombie.lines)
    zombie.thaw()
    ending = zombie.await_line(ENDED, END, after=heard)
    said = "\n".join([*zombie.lines[heard:], *zombie.errors])
    assert ending.startswith("failed"), said
    assert re.search(f"{OURS}|{SPARKS}", said), said


def resume_too_late(lives: Lives, point: str) -> None:
    """Let a successor finish, then the zombie go on: a typed error, and nothing has changed."""
    with held(lives, point) as zombie:
        lives.finish()
        before = lives.read()
        fail_late(zombie)
        assert lives.read() == before


@pytest.mark.parametrize("name", ["sqlite", "delta", "iceberg", "kafka driver", *POSTGRES])
@pytest.mark.parametrize("point", ELSEWHERE)
def test_held_outside_a_transaction(name: str, point: str, begin: Begin) -> None:
    """Its successor finishes; resumed, it is stopped by a typed error, and nothing has changed."""
    resume_too_late(begin(name), point)


@pytest.mark.parametrize("name", POSTGRES)
@pytest.mark.parametrize("point", IN_TRANSACTION)
def test_held_in_a_transaction_of_postgres(name: str, point: str, begin: Begin) -> None:
    """Its successor waits a bounded time, ends its backend, and finishes; resumed, it fails."""
    resume_too_late(begin(name, sink={"lock_timeout": 3.0}), point)


@pytest.mark.parametrize("point", ["sink.begun", "sink.commit-sent"])
def test_held_before_a_commit_of_delta(point: str, begin: Begin) -> None:
    """It holds no lock: its successor finishes; resumed, Delta skips its commit, and it fails."""
    resume_too_late(begin("delta"), point)


@pytest.mark.parametrize("name", ["iceberg", "iceberg upsert", "iceberg letters"])
@pytest.mark.parametrize("point", ["sink.staged", *OF_LETTERS, *OF_ICEBERG])
def test_held_with_a_branch_of_iceberg(name: str, point: str, begin: Begin) -> None:
    """Its successor publishes and drops its branch; resumed, it fails, and leaves no other one."""
    resume_too_late(begin(name), point)


@pytest.mark.parametrize("name", ["kafka driver", "kafka executors"])
@pytest.mark.parametrize("point", [*OF_KAFKA, *IN_TRANSACTION])
def test_held_in_a_transaction_of_kafka(name: str, point: str, begin: Begin) -> None:
    """Its successor fences it, waits for nothing, and finishes; resumed, it fails."""
    resume_too_late(begin(name), point)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", UNFENCED)
def test_held_without_transactions(point: str, begin: Begin) -> None:
    """Nobody keeps it out. It fails, and the next batch names what it has sent twice, to a row."""
    lives = begin("kafka without transactions")
    with held(lives, point) as zombie:
        lives.finish()
        before = Counter(lives.read().rows)
        fail_late(zombie)
    twice = Counter(lives.read().rows) - before
    assert bool(twice) == (point in SENT_AGAIN), len(twice)
    lives.fill(10)
    if twice:
        with lives.run() as successor:
            assert successor.await_line(ENDED, END).startswith("failed")
            (told,) = (line for line in successor.lines if line.startswith("TargetRecordsError"))
        assert f"{twice.total()} {Unexpected.LATE.value}" in told
        accepting = replace(lives.job, sink={**lives.job.sink, "on_repeated": "accept"})
        with replace(lives, job=accepting).run() as successor:
            assert successor.await_line(ENDED, END) == "drained"
        assert set((Counter(lives.read().rows) - twice).values()) == {1}
    else:
        lives.finish()


@pytest.mark.parametrize("point", IN_TRANSACTION)
def test_held_in_a_transaction_of_sqlite(point: str, begin: Begin) -> None:
    """Its successor stops with an error that names it and how to end it; ended so, all goes on."""
    lives = begin("sqlite", sink={"busy_timeout": 3.0})
    with held(lives, point) as zombie:
        with lives.run() as successor:
            assert successor.await_line(ENDED, END).startswith("failed")
            (told,) = (line for line in successor.lines if line.startswith("SinkLockedError"))
            assert successor.end() == 0
        assert f"kill -9 {zombie.pid}" in told
        zombie.kill()
    lives.check("after the end of the zombie")
    lives.finish()


def test_resumed_after_its_successor_gave_up(begin: Begin) -> None:
    """A driver that held SQLite's lock all the time was never replaced: it goes on to the end."""
    lives = begin("sqlite", sink={"busy_timeout": 3.0})
    with held(lives, "sink.ledger-moved") as slow:
        with lives.run() as successor:
            assert successor.await_line(ENDED, END).startswith("failed")
            assert successor.end() == 0
        slow.thaw()
        assert slow.await_line(ENDED, END) == "drained"
    lives.finish()
