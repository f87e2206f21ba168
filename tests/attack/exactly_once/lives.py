"""The lives of one query: started, felled at a chosen place, and started again."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

from eo_listener.kafka.logs import ClusterReader
from eo_listener.offsets import TopicPartition
from tests.attack import surgery
from tests.attack.durable import Durable
from tests.attack.exactly_once import judge
from tests.attack.exactly_once.driver import Job, Strike
from tests.attack.exactly_once.store import Holding, Store
from tests.attack.faults import Fault, environment
from tests.attack.zombies import ROOT, Puppet
from tests.groups import positions
from tests.topics import Topics, unique

PARTITIONS = 3
DRIVER = "tests.attack.exactly_once.driver"
TASK = {"task.begun": 0, "task.row": 60}  # records of the batch that the task has read before
END = 150.0  # seconds for a life, or for a batch of the last one; most take ten

# In the order of a batch's way, with the crash points of the reliability plan that each stands for.
POINTS = {
    "spark.called": "C03",
    "batch.planned": "C04",
    "batch.judged": "between C04 and C05",
    "task.begun": "C05",
    "task.row": "C06",
    "sink.staged": "between C06 and C24",
    "sink.letters-staged": "between C06 and C24",
    "sink.fenced": "between C06 and C24",
    "sink.ledger-read": "between C06 and C24",
    "sink.begun": "between C06 and C24, C16",
    "sink.copying": "C18, C24",
    "sink.rows-written": "C07, C19, C25",
    "sink.tail-read": "C17",
    "sink.ledger-moved": "C26",
    "sink.commit-sent": "C27",
    "sink.committed": "C28",
    "sink.letters-published": "between C28 and C29",
    "batch.applied": "C29, C30",
    "listener.progress": "C31",
}


OF_KAFKA = ("sink.fenced", "sink.ledger-read")
OF_DELTA = ("sink.begun", "sink.commit-sent", "sink.committed")  # rows and ledger are one call
OF_ICEBERG = ("sink.begun", "sink.rows-written", "sink.commit-sent", "sink.committed")
OF_LETTERS = ("sink.letters-staged", "sink.letters-published")
OF_TABLES = {"delta": OF_DELTA, "iceberg": OF_ICEBERG}


@dataclass(frozen=True, slots=True)
class Lives:
    """A topic, a checkpoint and a store; each life of a driver goes on where the last one died."""

    job: Job
    store: Store
    folder: Path
    within: tuple[str, ...] = ()  # words before a driver's command

    @classmethod
    def begin(
        cls, servers: str, store: Store, where: str, folder: Path, /, **more: object
    ) -> Lives:
        job = Job(
            servers=servers,
            topic=Topics(servers).create("attacked", PARTITIONS),
            group=unique("attacked"),
            checkpoint=str(folder / "checkpoint"),
            where=where,
            **more,  # type: ignore[arg-type]  # of Job, which checks their names
        )
        return cls(job, store, folder)

    def reaches(self, point: str) -> bool:
        if point == "sink.tail-read":
            return self.job.unfenced
        if point in OF_LETTERS:
            return self.job.marks
        if self.job.store in OF_TABLES and point.startswith("sink."):
            merges = self.job.sink.get("mode") == "upsert"
            return point in OF_TABLES[self.job.store] or (point == "sink.staged" and merges)
        if self.job.unfenced and point in ("sink.fenced", "sink.commit-sent"):
            return False
        if point in OF_KAFKA:
            return self.job.store == "kafka"
        return point != "sink.staged" or self.job.sink.get("write_method") == "staging"

    def fill(self, records: int) -> None:
        """Append so many to each partition; the offset is all that they hold."""
        places = product(map(str, range(records)), range(PARTITIONS))
        made = ({"value": number, "partition": partition} for number, partition in places)
        Topics(self.job.servers).produce(self.job.topic, made)

    def run(
        self,
        faults: Mapping[str, Fault] | None = None,
        *,
        log: str = "log",
        strike: Strike | None = None,
    ) -> Puppet:
        armed = environment(faults or {}, self.folder / log)
        armed["PYTHONPATH"] = str(ROOT)  # executors run in folders of their own
        job = replace(self.job, strike=strike).text()
        return Puppet(DRIVER, job, environment=armed, within=self.within)

    def armed(self, point: str, nth: int, do: Literal["fell", "stop"], *, log: str) -> Puppet:
        """Start a driver that is felled, or held, when it reaches that point for the nth time."""
        if point not in TASK:
            return self.run({point: Fault(do=do, nth=nth)}, log=log)
        first = self.read().heads.get(TopicPartition(self.job.topic, 0), 0)
        offset = first + (nth - 1) * self.job.batch // PARTITIONS + TASK[point]
        return self.run(log=log, strike=Strike(partition=0, offset=offset, do=do))

    def fell(self, point: str, nth: int = 1) -> None:
        """One life that ends there, and a check of what it has left behind."""
        if point == "sink.tail-read":  # there must have been a try before
            self.fell("sink.rows-written", nth)
            nth = 1
        log = f"{point}-{nth}-{unique('log')}"
        with self.armed(point, nth, "fell", log=log) as victim:
            code = victim.wait(END)
            assert code == -signal.SIGKILL, (point, victim.lines, victim.errors[-20:])
        reached = (self.folder / log).read_text().splitlines()
        assert any(line.endswith(" fell") for line in reached), reached  # other tasks may go on
        self.check(f"felled at {point}, time {nth}")

    def finish(self) -> Puppet:
        """A life that nothing disturbs: all is processed, and everybody agrees."""
        with self.run() as driver:
            heard, line = 0, ""
            while not line.startswith(("drained", "failed")):  # many lives may have left a batch
                line = driver.await_line(("drained", "failed", "BatchApplied"), END, after=heard)
                heard = driver.lines.index(line, heard) + 1
            assert driver.end() == 0, driver.errors[-20:]
        assert driver.lines[-1] == "drained", driver.lines
        holding = self.check("at the end")
        ends = self.ends()
        wrong = judge.at_the_end(holding, ends, self.checkpoint(), self.group())
        if self.job.shape == "windows":
            wrong += judge.all_windows(holding, ends)
        assert not wrong, wrong
        return driver

    def leave_temporary(self) -> None:
        """The crash was in the writing of the commit log: half of its file is there (C30)."""
        checkpoint = Path(self.job.checkpoint)
        if surgery.batches(checkpoint, "commits"):
            surgery.leave_temporary(checkpoint)

    def check(self, when: str) -> Holding:
        """Judge the store as it lies there, and return what it holds."""
        holding = self.read()
        wrong = (
            judge.at_rest(
                holding,
                by_partition=self.job.sink.get("atomicity") == "partition",
                ahead=self.job.unfenced,
            )
            if self.job.shape == "rows"
            else judge.windows_at_rest(holding, PARTITIONS)
        )
        assert not wrong, (when, wrong)
        return holding

    def read(self) -> Holding:
        return self.store.read(judge.COLUMNS[self.job.shape])

    def checkpoint(self) -> judge.Ends:
        return Durable(Path(self.job.checkpoint)).batches[-1].ends

    def ends(self) -> judge.Ends:
        partitions = [TopicPartition(self.job.topic, number) for number in range(PARTITIONS)]
        with closing(ClusterReader({"bootstrap.servers": self.job.servers})) as reader:
            return reader.log_ends(partitions)

    def group(self) -> judge.Ends:
        found = positions(self.job.servers, self.job.group)
        return {tp: held.offset for tp, held in found.items()}
