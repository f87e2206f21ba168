"""The flights on their way into a sink: the driver, the chaos around it, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eo_listener.model.offsets import Offsets
from eo_listener.spark.checkpoint import Checkpoint
from examples.demo.chaos import Chaos, Kill
from examples.demo.demo_settings import MOST, QUERY, TOPIC, DemoSettings, DemoStore
from examples.demo.demo_target import DemoTarget
from examples.demo.driver_process import Driver
from examples.demo.flights_check import Proof, prove
from examples.demo.group_readings import Repeater
from examples.demo.job import Job
from examples.demo.job_messages import News
from examples.demo.results import BatchResult
from examples.demo.snapshot import Scoreboard
from examples.demo.stored_rows import StoredRows
from examples.demo.table import Table
from examples.demo.topic_reader import TopicReader
from examples.demo.verdict import DemoVerdict, judge_group
from tests.broker import GroupRow

_FEWEST: Final = 100  # rows in a batch
_BATCHES_A_LIFE: Final = 3  # at least: so that there is always one to be killed in


class IntoSink:
    """Runs the driver, kills it when chaos says so, and proves what has become of the rows."""

    def __init__(
        self,
        settings: DemoSettings,
        target: DemoTarget,
        servers: str,
        folder: Path,
        scoreboard: Scoreboard,
    ) -> None:
        self._target = target
        self._scoreboard = scoreboard
        self._rows: StoredRows = (
            TopicReader(target) if target.store is DemoStore.KAFKA else Table(target)
        )
        self._chaos = Chaos(settings.kills, scoreboard.wanted)
        lives = settings.kills + 1
        most = min(MOST, max(_FEWEST, scoreboard.wanted // (lives * _BATCHES_A_LIFE)))
        job = Job(
            servers=servers, folder=str(folder), most=most, metrics_port=settings.metrics_port
        )
        self._driver = Driver(job, target, self._observe)
        self._checkpoint = Checkpoint(str(self._driver.checkpoint))
        scoreboard.results, scoreboard.store = self._rows, target.store
        self.readings: Sequence[Repeater] = (
            Repeater("demo-rows", self._rows.read, self._rows.pause),
        )

    @property
    def query(self) -> Driver:
        """The driver."""
        return self._driver

    def step(self) -> None:
        """Kill the driver if this is the moment, and start another. Raises EoListenerError."""
        if self._scoreboard.note and self._driver.running:
            self._scoreboard.note = ""
        batch, since = self._driver.batch()
        if batch is None or not self._chaos.due(
            written=self._rows.counted, batch=batch, since=since
        ):
            return
        self._driver.kill()
        self._chaos.killed(Kill(batch=batch, caught=self._caught(batch)))
        number, wanted = len(self._chaos.done), self._chaos.wanted
        self._scoreboard.note = (
            f"driver killed in batch {batch}, {number} of {wanted}: starting it again"
        )
        self._driver.start()

    def judge(
        self, rows: Sequence[GroupRow], partitions: int, produced: int
    ) -> tuple[DemoVerdict, Proof | None]:
        """Judge what all who know say. Raises EoListenerError."""
        proof = self._proof(rows, partitions)
        checks = judge_group(rows, topic=TOPIC, partitions=partitions)
        return DemoVerdict(checks=(*checks, *proof.checks(produced))), proof

    def close(self) -> None:
        """Let go of what reads the rows."""
        self._rows.close()

    def _proof(self, rows: Sequence[GroupRow], partitions: int) -> Proof:
        by_partition = {row.partition: row for row in rows if row.topic == TOPIC}
        numbers = range(partitions)
        ends = {
            n: (by_partition[n].log_end_offset or 0) if n in by_partition else 0 for n in numbers
        }
        self._rows.read()
        counted, whole = self._rows.count(ends)
        sink = self._target.sink()
        try:
            heads = sink.applied(QUERY)
        finally:
            sink.close()
        return prove(
            place=self._target.label,
            ends=ends,
            group={n: by_partition[n].current_offset for n in numbers if n in by_partition},
            ledger={tp.partition: head.range.until for tp, head in heads.items()},
            checkpoint={tp.partition: end for tp, end in self._done().items()},
            rows=counted,
            whole=whole,
            kills=self._chaos.done,
            kills_wanted=self._chaos.wanted,
            report=self._rows.report(),
        )

    def _done(self) -> Offsets:
        """Where the last batch that Spark has made durable ends."""
        offsets = self._checkpoint.committed().offsets
        return Offsets() if offsets is None else next(iter(offsets.kafka().values()), Offsets())

    def _caught(self, batch: int) -> bool:
        there = self._checkpoint.batches()
        return batch in there.planned and batch not in there.committed

    def _observe(self, news: News) -> None:
        if news.what == "committed":
            self._scoreboard.commits += 1
        else:
            self._rows.add(BatchResult(number=news.batch, rows=news.rows, seconds=news.seconds))
