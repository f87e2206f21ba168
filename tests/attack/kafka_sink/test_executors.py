"""Executors that die, requests of tasks that go wrong, and tasks that outlive their driver."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import psutil
import pytest

from eo_listener.model.ledger import Unexpected
from tests import waiting
from tests.attack.conftest import Attacked, new_attacked
from tests.attack.kafka_sink.cases import LATE, TASKS, VERY_LATE, Case
from tests.attack.kafka_sink.program import Program
from tests.attack.kafka_sink.reader import Reader, wrong
from tests.attack.kafka_sink.shapes import SHAPES
from tests.attack.wire_faults import Request
from tests.attack.zombies import Puppet
from tests.sinks.kafka.records import is_settled
from tests.topics import unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

MODULE = "tests.attack.kafka_sink.program"
PARTITIONS = 4
SIZE = 1000
# Tasks send nothing before they are told to wait for all of it: held there, they have sent nothing.
SLOWLY = {"kafka.linger.ms": "80000", "kafka.batch.size": "1000000"}
END = 120.0  # seconds for a batch, repetitions and all
STARTS = 120.0  # seconds for a driver with two executors
SENT, FLUSHED = "sink.rows-sent", "sink.rows-flushed"


@dataclass(kw_only=True)
class Cluster:
    """A driver, its two executors of a core each, for four tasks a batch; and a reader of all."""

    attacked: Attacked
    program: Program
    driver: Puppet
    reader: Reader
    rows: dict[int, int] = field(default_factory=dict)
    ordered: bool = True

    def hold(self, point: str) -> None:
        self._file(f"hold-{point}").touch()

    def held(self, point: str) -> list[int]:
        """Wait until a task of each executor stands there; return the executors' process ids."""
        found: list[Path] = []

        def both() -> bool:
            found[:] = Path(self.program.holds).glob(f"held-{point}-*")
            return len(found) == 2

        self.driver.await_that(both, END, f"two tasks at {point}")
        return [int(file.name.rsplit("-", 1)[1]) for file in found]

    def go_on(self, point: str) -> None:
        self._file(f"hold-{point}").unlink()
        for file in Path(self.program.holds).glob(f"held-{point}-*"):
            file.unlink()

    def begin(self, shape: str) -> None:
        self.ordered = self.ordered and shape == "plain"
        self._heard = len(self.driver.lines)
        self.driver.say(shape)

    def end(self) -> int:
        """Wait until the batch is written; return how many attempts that took."""
        line = self.driver.await_line(("written", "failed"), END, after=self._heard)
        assert line.startswith("written"), line
        _, number, attempts = line.split()
        self.rows[int(number)] = SIZE
        return int(attempts)

    def check(self) -> None:
        """All is there once, and no transaction is open."""
        servers = self.attacked.direct
        self.reader.seen(sum(self.rows.values()), 15.0)
        for topic in (self.program.target, self.program.ledger):
            assert is_settled(servers, topic, settle=15.0), f"a transaction is open in {topic}"
        assert wrong(self.reader.seen(0, 0), self.rows, ordered=self.ordered) == []

    def _file(self, name: str) -> Path:
        return Path(self.program.holds) / name


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class by which tasks are held."""
    folder = tmp_path_factory.mktemp("holds")
    source = Path(__file__).parent / "TaskHold.java"
    subprocess.run(["javac", "-d", str(folder), str(source)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest,
    attacked_broker: Attacked,
    holding: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """One for all tests of the module that have transactions, and one for those without."""
    with ExitStack() as ends:
        folder = tmp_path_factory.mktemp("cluster")
        yield start(attacked_broker, holding, folder, ends, transactions=request.param)


def start(
    attacked: Attacked, holding: Path, folder: Path, ends: ExitStack, **more: object
) -> Cluster:
    shutil.copytree(holding, folder, dirs_exist_ok=True)
    program = Program(
        servers=attacked.servers,
        target=attacked.topics.create("target", PARTITIONS),
        ledger=unique("ledger"),
        source=attacked.topics.create("source", 1),
        size=SIZE,
        run_id="first",
        holds=str(folder),
        **{  # type: ignore[arg-type]  # of Program, which checks their names
            "options": {"kafka.request.timeout.ms": "1000", "kafka.retry.backoff.ms": "20"},
            **more,
        },
    )
    reader = ends.enter_context(Reader(attacked.direct, program.target, PARTITIONS))
    driver = ends.enter_context(Puppet(MODULE, program.text()))
    driver.await_line("ready", STARTS)
    made = Cluster(attacked=attacked, program=program, driver=driver, reader=reader)
    made.begin("plain")
    assert made.end() == 1
    return made


@pytest.mark.parametrize(
    ("cluster", "shape", "point"),
    [
        *((True, shape, point) for shape, point in product(SHAPES, (SENT, FLUSHED))),
        (False, "plain", FLUSHED),
        (False, "by chance", SENT),
    ],
    indirect=["cluster"],
)
def test_an_executor_is_lost(cluster: Cluster, shape: str, point: str) -> None:
    """SIGKILL in mid-batch: it is repeated, and without transactions leaves out what is there."""
    cluster.hold(point)
    cluster.begin(shape)
    first, _ = cluster.held(point)
    os.kill(first, signal.SIGKILL)
    cluster.go_on(point)
    assert cluster.end() == 2
    cluster.check()


@pytest.mark.parametrize(
    ("cluster", "shape"),
    [*((True, shape) for shape in SHAPES), (False, "grouped")],
    indirect=["cluster"],
)
def test_a_fetch_fails(cluster: Cluster, shape: str) -> None:
    """The files of a shuffle are gone when half of the tasks have read theirs."""
    cluster.hold(SENT)
    cluster.begin(shape)
    cluster.held(SENT)
    gone = [*(Path(cluster.program.holds) / "local").rglob("shuffle_*")]
    assert gone
    for file in gone:
        file.unlink()
    cluster.go_on(SENT)
    assert cluster.end() == 2
    cluster.check()


@pytest.mark.parametrize("transactions", [True, False])
def test_the_broker_dies_in_mid_batch(holding: Path, tmp_path: Path, transactions: bool) -> None:
    """SIGKILL with a task's rows under way, and with all acknowledged: it is there once."""
    with ExitStack() as ends:
        broken = ends.enter_context(new_attacked())
        one = start(broken, holding, tmp_path / "broken", ends, transactions=transactions)
        for point in (SENT, FLUSHED):
            one.hold(point)
            one.begin("plain")
            one.held(point)
            broken.broker.kill()
            one.go_on(point)
            time.sleep(1)  # requests fail, and are repeated
            broken.broker.restart()
            one.end()
            one.check()


def test_a_task_outlives_its_job_without_transactions(
    attacked: Attacked, holding: Path, tmp_path: Path
) -> None:
    """Spark ends a job that has failed before its tasks: the try waits for what they still send."""
    with ExitStack() as ends:
        one = start(
            attacked,
            holding,
            tmp_path / "outlives",
            ends,
            transactions=False,
            conf={
                "spark.task.maxFailures": "1",
                "spark.sql.execution.interruptOnCancel": "false",  # else Spark 4 wakes it
            },
            options=SLOWLY,
        )
        heard = len(one.driver.lines)
        one.hold(SENT)
        one.begin("plain")
        lost, _ = one.held(SENT)
        os.kill(lost, signal.SIGKILL)
        time.sleep(4)  # the job fails at once; its end is waited for 10 s
        assert one.driver.lines[heard:] == []
        one.go_on(SENT)
        assert one.driver.await_line(("written", "failed"), END, after=heard).startswith("failed")
        one.begin("plain")
        assert one.end() == 1
        one.check()


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("cluster", "case"),
    [*((True, one) for one in TASKS), *((False, one) for one in TASKS if one.api == "Produce")],
    indirect=["cluster"],
    ids=str,
)
def test_a_request_of_a_task_meets_a_fault(cluster: Cluster, case: Case) -> None:
    """Nothing is lost or doubled, no transaction stays open, and the query goes on by itself."""
    proxy = cluster.attacked.proxy
    fault = proxy.arm(case.api, case.action, nth=case.nth, choice=_of_a_task)
    try:
        cluster.begin("plain")
        cluster.end()
        assert fault.fired == 1
        if case.fault == LATE:
            fault.release()
            time.sleep(0.3)
        if case.fault == VERY_LATE:
            cluster.hold(FLUSHED)
        cluster.begin("plain")
        if case.fault == VERY_LATE:
            cluster.held(FLUSHED)
            fault.release()
            time.sleep(0.3)
            cluster.go_on(FLUSHED)
        cluster.end()
    finally:
        proxy.disarm()
    cluster.check()


def _of_a_task(request: Request) -> bool:
    return (request.client_id or "").startswith("eo-listener-")


def test_tasks_outlive_their_driver(attacked: Attacked, holding: Path, tmp_path: Path) -> None:
    """They go on sending when a successor has written the batch: nobody is shown any of it."""
    with ExitStack() as ends:
        dead = start(attacked, holding, tmp_path / "dead", ends, options=SLOWLY)
        living, executors = succeed(dead, ends)
        before = attacked.proxy.counts()["AddPartitionsToTxn"].seen
        for one in executors:
            os.kill(one, signal.SIGCONT)
        counts = attacked.proxy.counts
        waiting.until(lambda: counts()["AddPartitionsToTxn"].seen >= before + 2, 30)
        time.sleep(2)
        living.check()
        living.begin("plain")
        assert living.end() == 1
        living.check()


def test_tasks_that_outlive_their_driver_are_named_without_transactions(
    attacked: Attacked, holding: Path, tmp_path: Path
) -> None:
    """Nobody keeps them out: the next batch says that rows are there twice, and is not written."""
    with ExitStack() as ends:
        dead = start(attacked, holding, tmp_path / "dead", ends, transactions=False, options=SLOWLY)
        living, executors = succeed(dead, ends)
        living.check()
        for one in executors:
            os.kill(one, signal.SIGCONT)
        there = sum(living.rows.values())
        seen = living.reader.seen(there + 1, 30.0)
        assert sum(map(len, seen.values())) > there, "the tasks send nothing"
        heard = len(living.driver.lines)
        living.begin("plain")
        line = living.driver.await_line(("written", "failed"), END, after=heard)
        assert line.startswith("failed TargetRecordsError")
        assert Unexpected.REPEATED.value in line
        assert not [
            value
            for values in living.reader.seen(0, 0).values()
            for value in values
            if value.startswith(f"{len(living.rows)}.")
        ]


def succeed(dead: Cluster, ends: ExitStack) -> tuple[Cluster, list[int]]:
    """Kill its driver in mid-batch, hold its executors, and have a successor write the batch."""
    dead.hold(SENT)
    dead.hold("exit")  # until they are killed
    dead.begin("plain")
    executors = dead.held(SENT)
    for one in executors:
        ends.callback(_kill, one)
        os.kill(one, signal.SIGSTOP)
    for process in dead.driver.family():
        if process.pid not in executors:
            process.kill()
    dead.go_on(SENT)
    dead.attacked.proxy.forget_counts()
    second = replace(dead.program, master="local[2]", run_id="second")
    follower = ends.enter_context(Puppet(MODULE, second.text()))
    follower.await_line("ready", STARTS)
    living = Cluster(
        attacked=dead.attacked,
        program=dead.program,
        driver=follower,
        reader=dead.reader,
        rows=dead.rows,
    )
    living.begin("plain")
    assert living.end() == 1
    return living, executors


def _kill(process: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(process).kill()
