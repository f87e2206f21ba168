"""Failures that a pipeline into the lake is planned for, each in the test of its name."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Final

import pytest

from tests.attack.disks import Disk
from tests.attack.exactly_once.lives import END, PARTITIONS, Lives
from tests.attack.exactly_once.settings import Begin
from tests.attack.faults import Fault
from tests.attack.networks import network
from tests.attack.zombies import Puppet
from tests.broker import Listener
from tests.conftest import StartBroker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

APPENDS: Final = ["delta", "iceberg"]
UPSERTS: Final = ["delta upsert", "iceberg upsert"]
AWAY: Final = 15.0  # seconds
BACK: Final = 30.0  # seconds in which a batch must be written, when Kafka is there again
ROOM: Final = {  # bytes for files of rows, of which there is one a task, and not for a commit
    ("delta", "append"): 24_576,
    ("delta", "upsert"): 16_384,
    ("iceberg", "append"): 40_960,
    ("iceberg", "upsert"): 40_960,
}
TYPED: Final = ("RetriableSinkError", "OutcomeUnknownError")
HELD: Final = 3.0  # seconds in which Kafka goes away
STEPS: Final = {  # what Kafka is asked when it does not answer any more
    "idle": None,  # by Spark, where the log ends
    "planned": "spark.called",  # by the guard, where the log begins
    "read": "batch.judged",  # by a task, for records
}


@pytest.fixture
def lives(request: pytest.FixtureRequest, begin: Begin) -> Lives:
    """A query with three batches before it."""
    found = begin(request.param)
    found.fill(found.job.batch)
    return found


def over(*names: str) -> pytest.MarkDecorator:
    """With `lives` under each of these settings."""
    return pytest.mark.parametrize("lives", names, indirect=True)


@over(*APPENDS, *UPSERTS)
@pytest.mark.parametrize(
    "point", ["sink.begun", "sink.rows-written", "sink.commit-sent", "sink.committed"]
)
def test_spark_crash(lives: Lives, point: str) -> None:
    """SIGKILL to the driver, JVM and all, at the commit of its second batch."""
    if not lives.reaches(point):
        pytest.skip("rows and ledger are one call")
    lives.fell(point, 2)
    lives.finish()


@over(*APPENDS, *UPSERTS)
def test_kill_in_mid_batch(lives: Lives) -> None:
    """While a task reads the records of the second batch."""
    lives.fell("task.row", 2)
    lives.finish()


@over(*APPENDS, *UPSERTS)
def test_duplicate_prevention(lives: Lives) -> None:
    """A batch that Spark plans again, since it has not heard of its end, is not written again."""
    lives.fell("batch.applied", 2)
    before = lives.read()
    with lives.run({"spark.called": Fault(do="fell", nth=2)}) as driver:
        driver.wait(END)
    assert "BatchReplayed" in driver.lines
    assert "BatchApplied" not in driver.lines
    assert lives.check("after the repetition") == before
    lives.finish()


@over(*APPENDS)
def test_offset_consistency(lives: Lives) -> None:
    """The group is behind where a driver died before it was told; in the end all four agree."""
    lives.fell("listener.progress", 2)
    held_by_group = lives.group()
    assert held_by_group != lives.read().heads
    lives.finish()  # which compares the ledger, the checkpoint, the group and the log
    assert dict(lives.group()) == lives.read().heads


@over(*APPENDS)
def test_count_stability_over_5_restarts(lives: Lives) -> None:
    """Without new records nothing changes; with new ones, these are added, and no others."""
    lives.finish()
    count = len(lives.read().rows)
    for new in (0, 10, 0, 20, 0):
        lives.fill(new)
        lives.finish()
        count += PARTITIONS * new
        assert len(lives.read().rows) == count


@pytest.mark.parametrize("name", APPENDS)
@pytest.mark.parametrize("step", STEPS)
def test_broker_down(begin: Begin, start_broker: StartBroker, name: str, step: str) -> None:
    """SIGKILL to the broker under a running query, which waits, and goes on when it is back."""
    broker = start_broker()
    lives = begin(name, servers=broker.bootstrap_servers, live=True)
    outlive(lives, step, broker.kill, broker.restart)


@pytest.mark.parametrize("name", APPENDS)
@pytest.mark.parametrize("step", ["idle", "read"])
def test_network_partition(begin: Begin, start_broker: StartBroker, name: str, step: str) -> None:
    """All packets between driver and broker vanish; the query waits, and goes on afterwards."""
    with network() as wire:
        broker = start_broker(listeners=[Listener(name="LAN", host=wire.host)])
        lives = begin(name, servers=broker.addresses("LAN"), live=True)
        outlive(replace(lives, within=wire.within), step, wire.cut, wire.mend)


def outlive(
    lives: Lives, step: str, take_away: Callable[[], None], give_back: Callable[[], None]
) -> None:
    """Have Kafka go away in that step of the second batch, and come back under the same driver."""
    batch, point = lives.job.batch // PARTITIONS, STEPS[step]
    held = {} if point is None else {point: Fault(do="sleep", nth=2, seconds=HELD)}
    lives.fill(batch)
    with lives.run(held) as driver:
        driver.await_line("BatchApplied", END)
        if point is not None:
            lives.fill(batch)
            log = lives.folder / "log"
            driver.await_that(lambda: f"{point} 2 sleep\n" in log.read_text(), END, point)
        take_away()
        before, heard = lives.check("when Kafka went away").heads, len(driver.lines)
        for _ in ticks(AWAY):
            assert lives.check("while Kafka is away").heads == before
        give_back()
        if point is None:
            lives.fill(batch)
        for _ in ticks(BACK):
            lives.check("when Kafka is back")
            if "BatchApplied" in driver.lines[heard:]:
                break
        else:
            pytest.fail(f"no batch in {BACK:g} s: {driver.lines}, {driver.errors[-20:]}")
        driver.await_that(lambda: lives.check("afterwards").heads == lives.ends(), END, "the end")
        assert driver.code() is None
        assert driver.lines.count("started") == 1, driver.lines
    replace(lives, job=replace(lives.job, live=False)).finish()


def ticks(seconds: float) -> Iterator[None]:
    """For so long, some times a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.3)


@contextmanager
def full(lives: Lives, left: int = 0) -> Iterator[None]:
    """There is no room for any other file, or for so many bytes."""
    disk = disk_of(lives)
    disk.fill(left=left)
    yield
    disk.empty()


def nearly_full(lives: Lives) -> AbstractContextManager[None]:
    """There is room for rows, but none for all that a commit writes."""
    return full(lives, left=ROOM[lives.job.store, lives.job.sink.get("mode", "append")])


@contextmanager
def protected(lives: Lives) -> Iterator[None]:
    """Nothing may be written."""
    disk = disk_of(lives)
    disk.protect()
    yield
    disk.release()


@contextmanager
def locked(lives: Lives) -> Iterator[None]:
    """Another program holds the lock of the catalog's database."""
    with closing(sqlite3.connect(lives.folder / "catalog.db", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")


def disk_of(lives: Lives) -> Disk:
    """That of the table's files."""
    return Disk(lives.folder / {"delta": "delays", "iceberg": "files"}[lives.job.store])


FAILURES: Final = {  # and what the error must say
    "disk full": (full, "No space left on device"),
    "disk nearly full": (nearly_full, "No space left on device"),
    "read-only": (protected, "Read-only file system"),
    "catalog locked": (locked, "database is locked"),
}


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        (name, failure)
        for name in (*APPENDS, *UPSERTS)
        for failure in FAILURES
        if failure != "catalog locked" or name.startswith("iceberg")
    ],
)
def test_table_write_failure(
    request: pytest.FixtureRequest, begin: Begin, name: str, failure: str
) -> None:
    """A batch fails with an error that says why, and changes nothing; mended, it is written."""
    refusing, reason = FAILURES[failure]
    lives = begin(name, retry=3.0)
    disk_of(lives).mount(request.addfinalizer)
    lives.fill(lives.job.batch // PARTITIONS)
    lives.finish()
    before = lives.read()
    lives.fill(lives.job.batch // PARTITIONS)
    with refusing(lives), lives.run() as driver:
        assert driver.await_line(("drained", "failed"), END).startswith("failed")
        assert driver.end() == 0
    assert repeated(driver), driver.errors
    (told,) = (line for line in driver.lines if line.startswith(TYPED))
    assert reason in told, told
    after = lives.check("after the failure")
    assert (after.rows, after.heads) == (before.rows, before.heads)
    patient = replace(lives, job=replace(lives.job, retry=60.0))
    with ExitStack() as mended:
        mended.enter_context(refusing(lives))
        with patient.run() as driver:
            driver.await_that(lambda: repeated(driver), END, "a repetition")
            mended.close()
            assert driver.await_line(("drained", "failed"), END) == "drained"
            assert driver.end() == 0
    lives.fill(10)
    lives.finish()


def repeated(driver: Puppet) -> bool:
    """Whether it has said that it tries again."""
    return any(" is repeated in " in line for line in driver.errors)
