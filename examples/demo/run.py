"""The demo from its first process to its last."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

from confluent_kafka import KafkaException

from eo_listener.errors import KafkaError, UnavailableError
from eo_listener.kafka.logs import ClusterReader
from eo_listener.model import lag
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from examples.demo import flights
from examples.demo.check import Check, Kill, Proof, judge_count, judge_group, judge_sink, prove
from examples.demo.driver import Driver, Job
from examples.demo.producer import Replay, create_topic
from examples.demo.screen import Progress, shown
from examples.demo.store import GROUP, PARTITIONS, QUERY, TOPIC, Store, StoredRows
from tests.broker import Broker, BrokerError, parse_rows

_MOST: Final = 30_000  # rows in a batch, so that there is something to see on a slow machine too
_FEWEST: Final = 100
_BATCHES_A_LIFE: Final = 3  # at least: so that there is always one to be killed in
_LONGEST_DELAY: Final = 0.6  # seconds into a batch, until the driver is killed
_STALL: Final = 180.0  # seconds without progress; a start of Spark never takes that long
_SPARK_START: Final = 900.0  # seconds; the first time the Kafka connector is downloaded
_BREAK_OFF: Final = 5.0  # seconds for the query to end in order after a failure or Ctrl-C


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`rate` is in flights per second, 0 as fast as possible; `kills` is how often to kill."""

    rows: int
    rate: int
    kafka_version: str
    store: Store | None = None
    kills: int = 0
    metrics_port: int | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The checks and what they rest on. `table` is what kafka-consumer-groups printed at the end.

    `folder` holds all files of the demo, Spark's log among them.
    """

    servers: str
    folder: Path
    progress: Progress
    drained: bool
    table: str = ""
    checks: list[Check] = field(default_factory=list)
    proof: Proof | None = None

    @property
    def passed(self) -> bool:
        """True if every check holds."""
        return all(check.passed for check in self.checks)

    @property
    def log(self) -> Path:
        """Spark's output."""
        return self.folder / "demo.log"


@contextlib.contextmanager
def run(settings: Settings, stream: TextIO) -> Iterator[Outcome]:
    """Run the demo, showing on `stream` how it goes; Kafka and the store live until the block ends.

    Nothing that it started is left then; the folder with the logs is, when the demo failed. To be
    called in the main thread. Raises KeyboardInterrupt after Ctrl-C, and EoListenerError.
    """
    progress = Progress(wanted=min(settings.rows, flights.TOTAL), store=settings.store)
    folder = Path(tempfile.mkdtemp(prefix="eo-demo-"))
    keep = False
    broker = Broker(
        version=settings.kafka_version,
        folder=folder / "broker",
        java_options=(f"-Djava.io.tmpdir={folder}",),  # a killed JVM leaves files there
        on_progress=lambda text: progress.say(f"starting Kafka: {text}"),
    )
    try:
        with _interrupted_once(progress), contextlib.ExitStack() as stack:
            with shown(stream, progress):
                stack.enter_context(broker)
                servers = broker.bootstrap_servers
                where, rows = "", None
                if settings.store is not None:
                    where, rows = stack.enter_context(settings.store.opened(servers, folder))
                outcome = _Run(settings, broker, folder, progress, where, rows).stream()
                progress.say("done")
            keep = not outcome.passed
            yield outcome
    except UnavailableError:
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class _Run:
    """All between the broker's start and its end."""

    def __init__(
        self,
        settings: Settings,
        broker: Broker,
        folder: Path,
        progress: Progress,
        where: str,
        rows: StoredRows | None,
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._progress = progress
        self._rows = rows
        self._servers = broker.bootstrap_servers
        self._outcome = Outcome(
            servers=self._servers, folder=folder, progress=progress, drained=False
        )
        batches = (settings.kills + 1) * _BATCHES_A_LIFE
        job = Job(
            servers=self._servers,
            folder=str(folder),
            most=min(_MOST, max(_FEWEST, progress.wanted // batches)),
            store=settings.store,
            where=where,
            metrics_port=settings.metrics_port,
        )
        self._checkpoint = Checkpoint(job.checkpoint)
        self._driver = Driver(job, self._outcome.log, self._observe)
        self._kills: list[Kill] = []
        self._delay, self._last_batch = random.uniform(0, _LONGEST_DELAY), -1  # noqa: S311  # chance, not secrecy
        self._reader = ClusterReader({"bootstrap.servers": self._servers})
        self._partitions = tuple(TopicPartition(TOPIC, n) for n in range(PARTITIONS))
        self._stopping = threading.Event()

    def stream(self) -> Outcome:
        """Stream all flights through Spark, and judge what has become of them."""
        progress = self._progress
        progress.say(f"creating the topic {TOPIC} with {PARTITIONS} partitions")
        create_topic(self._servers, TOPIC, PARTITIONS)
        with contextlib.ExitStack() as parts:
            parts.callback(self._driver.stop, _BREAK_OFF)
            progress.say("starting Spark (the first time it downloads the Kafka connector)")
            self._driver.start()
            rows = flights.load()[: progress.wanted]
            self._wait(self._driver.running.is_set, _SPARK_START, "Spark did not start")
            replay = Replay(self._servers, TOPIC, rows, self._settings.rate)
            progress.replay = replay
            parts.callback(replay.stop)
            parts.enter_context(self._readings())
            self._replay(replay)
            progress.say("stopping the query and Spark")
            self._driver.stop()
        progress.say("asking Kafka's own kafka-consumer-groups for its final word")
        self._judge(replay.produced)
        return self._outcome

    def _replay(self, replay: Replay) -> None:
        """Produce all flights, and wait for the group to reach the log ends."""
        progress = self._progress
        progress.say("the first flights are in Kafka: waiting for Spark's first batch")
        replay.start()
        self._wait(lambda: progress.counted > 0, _STALL, "Spark's first batch did not end")
        progress.say("replaying the flights of 2013")
        replay.go_on()
        while replay.is_alive():
            self._step()
        progress.say("all flights are in Kafka: waiting for lag 0")
        reached, deadline = -1, 0.0
        while not (progress.committed == replay.produced and progress.lag == 0):
            if progress.committed > reached:
                reached, deadline = progress.committed, time.monotonic() + _STALL
            elif time.monotonic() > deadline:
                return
            self._step()
        self._outcome.drained = True

    def _wait(self, reached: Callable[[], bool], seconds: float, problem: str) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            self._step()
            if time.monotonic() > deadline:
                fix = f"Read its log: {self._outcome.log}"
                raise UnavailableError(f"{problem} within {seconds:.0f} s", fix=fix)

    def _step(self) -> None:
        """Raise what has ended Kafka, the query or the producer; else kill or wait a moment."""
        if not self._broker.pids:
            fix = f"Read its log: {self._broker.log()}"
            raise BrokerError("Kafka has ended by itself", fix=fix)
        self._driver.check()
        if self._progress.replay is not None:
            self._progress.replay.check()
        self._kill_if_due()
        time.sleep(0.05)

    def _kill_if_due(self) -> None:
        """Kill the driver when its share of the rows is written, in the middle of a batch.

        A batch that ended before its moment came makes the next moment come sooner.
        """
        progress, writing, kills = self._progress, self._driver.batch, self._settings.kills
        if progress.note and self._driver.running.is_set():
            progress.note = ""
        share = progress.wanted * (len(self._kills) + 1) // (kills + 1)
        if len(self._kills) == kills or writing is None or progress.counted < share:
            return
        batch, since = writing
        if batch != self._last_batch >= 0:
            self._delay /= 2
        self._last_batch = batch
        if time.monotonic() - since < self._delay:
            return
        self._driver.kill()
        files = self._checkpoint.batches()
        caught = batch in files.planned and batch not in files.committed
        self._kills.append(Kill(batch=batch, caught=caught))
        self._last_batch = -1
        self._delay = random.uniform(0, _LONGEST_DELAY)  # noqa: S311  # chance, not secrecy
        progress.note = (
            f"driver killed in batch {batch}, {len(self._kills)} of {kills}: starting it again"
        )
        self._driver.start()

    def _observe(self, message: dict[str, Any]) -> None:
        if message["what"] == "committed":
            self._progress.commits += 1
        elif self._rows is None:
            self._progress.counted += message["rows"]

    @contextlib.contextmanager
    def _readings(self) -> Iterator[None]:
        """Read all the while where the group stands, and how many rows there are."""
        readings = [(self._read_group, 0.5), (self._ask_tool, 4.0), (self._count_rows, 1.0)]
        threads = [threading.Thread(target=self._repeat, args=reading) for reading in readings]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _repeat(self, read: Callable[[], object], pause: float) -> None:
        while not self._stopping.is_set():
            # The last reading stays; the limit of the wait for lag 0 ends a lasting failure.
            with contextlib.suppress(KafkaError, KafkaException, BrokerError):
                read()
            self._stopping.wait(pause)

    def _read_group(self) -> None:
        committed = self._reader.group(GROUP, self._partitions)
        ends = self._reader.log_ends(self._partitions)
        self._progress.partitions = lag.compare(committed, ends)

    def _ask_tool(self) -> str:
        text = self._broker.consumer_groups(GROUP)
        self._progress.tool_rows = [row for row in parse_rows(text) if row.topic == TOPIC]
        self._progress.tool_at = time.monotonic()
        return text

    def _count_rows(self) -> None:
        if self._rows is not None:
            self._progress.counted = self._rows.count()

    def _judge(self, produced: int) -> None:
        outcome, progress = self._outcome, self._progress
        try:
            outcome.table = self._ask_tool()
        except BrokerError as error:  # a group that nobody ever committed to does not exist
            outcome.table = f"{error}\n"
        self._read_group()
        outcome.checks = judge_group(progress.tool_rows, PARTITIONS)
        if self._rows is None:
            outcome.checks.append(judge_count(progress.counted, produced))
        else:
            outcome.proof = self._proof(self._rows)
            outcome.checks += judge_sink(outcome.proof, produced, self._settings.kills)

    def _proof(self, stored: StoredRows) -> Proof:
        rows = {row.partition or 0: row for row in self._progress.tool_rows}
        job = self._driver.job
        with contextlib.closing(Store(job.store).sink(job.where)) as sink:
            heads = sink.applied(QUERY)
        records = stored.records()
        self._progress.counted = records.total()
        done = self._checkpoint.committed().offsets
        ends = Offsets() if done is None else next(iter(done.kafka().values()), Offsets())
        return prove(
            ends={n: rows[n].log_end_offset or 0 if n in rows else 0 for n in range(PARTITIONS)},
            group={n: row.current_offset for n, row in rows.items()},
            ledger={tp.partition: head.range.until for tp, head in heads.items()},
            checkpoint={tp.partition: end for tp, end in ends.items()},
            records=records,
            kills=self._kills,
        )


@contextlib.contextmanager
def _interrupted_once(progress: Progress) -> Iterator[None]:
    """Let the first Ctrl-C (or SIGTERM) end the demo, and further ones not disturb that end."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        progress.say("Ctrl-C: ending the query, Spark, the producer and Kafka")
        raise KeyboardInterrupt

    for each in signals:
        signal.signal(each, interrupt)
    yield
