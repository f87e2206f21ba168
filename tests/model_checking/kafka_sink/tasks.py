"""Spark's tasks, which join a driver's transaction, and may outlive the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eo_listener.kafka.java_transactions import TaskReport
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka.transaction import ProducerEpoch
from tests.model_checking.batches.tape import Row
from tests.model_checking.kafka_sink.cluster import Request
from tests.model_checking.kafka_sink.tape import TARGETS, Layout


def target(row: Row) -> TopicPartition:
    """The partition that a row goes to: those of each source partition go to several."""
    return TARGETS[(row.partition + row.offset) % len(TARGETS)]


def admits(attempt: int, stage_attempt: int) -> bool:
    """Whether a task may write at all: only the first attempt of each."""
    return attempt == 0 and stage_attempt == 0


@dataclass(slots=True)
class Task:
    """An attempt of a task; `requests` is what it still has to send."""

    name: str
    partition_id: int
    attempt: int
    stage_attempt: int
    requests: tuple[Request, ...]
    records: tuple[tuple[TopicPartition, int], ...]
    ended: bool = False  # it has reported, or failed
    closed: bool = False

    def key(self) -> object:
        return (self.name, self.requests, self.ended, self.closed)

    def report(self) -> TaskReport:
        return TaskReport(
            partition_id=self.partition_id,
            attempt=self.attempt,
            stage_attempt=self.stage_attempt,
            records=dict(self.records),
        )


def task_of(
    job: str,
    partition_id: int,
    partitions: Iterable[TopicPartition],
    rows: tuple[Row, ...],
    producer: ProducerEpoch,
    attempts: tuple[int, int] = (0, 0),
) -> Task:
    """A task that has joined, and has sent nothing yet: its sequence numbers begin at 0."""
    name = f"{job}/{partition_id}.{attempts[0]}.{attempts[1]}"
    requests: list[Request] = []
    records = []
    for tp in partitions:
        own = [row for row in rows if target(row) == tp]
        records.append((tp, len(own)))
        if own:
            requests.append(Request("add", producer, tp, by=name))
        requests += [
            Request("produce", producer, tp, sequence, row, name)
            for sequence, row in enumerate(own)
        ]
    return Task(name, partition_id, *attempts, tuple(requests), tuple(records))


@dataclass(slots=True)
class Job:
    """The tasks of one try; `driver` is the run that waits for it, None where nobody does."""

    name: str
    driver: str | None
    rows: tuple[Row, ...]
    producer: ProducerEpoch
    layout: Layout
    tasks: list[Task] = field(default_factory=list)
    reports: tuple[TaskReport, ...] = ()
    failed: bool = False
    error: str = ""  # what the first task that failed was told

    def start(self) -> None:
        self.tasks += [
            task_of(self.name, number, partitions, self.rows, self.producer)
            for number, partitions in enumerate(self.layout)
        ]

    def repeat(self, task: Task, *, stage: bool) -> None:
        """Start a task again, as Spark does when an executor is lost, or its shuffle files."""
        attempts = (0, task.stage_attempt + 1) if stage else (task.attempt + 1, task.stage_attempt)
        if not admits(*attempts):
            self.failed = True
            return
        partitions = self.layout[task.partition_id]
        self.tasks.append(
            task_of(self.name, task.partition_id, partitions, self.rows, self.producer, attempts)
        )

    def end(self, task: Task) -> None:
        """A task has done all it had to: the first attempt of each counts."""
        task.ended = True
        if all(one.partition_id != task.partition_id for one in self.reports):
            self.reports += (task.report(),)

    @property
    def done(self) -> bool:
        """Whether the driver hears of its end."""
        return self.failed or len(self.reports) == len(self.layout)

    def reports_key(self) -> object:
        """A hashable value in place of the reports."""
        ends = [(one.partition_id, one.attempt, one.stage_attempt) for one in self.reports]
        return (self.name, tuple(ends))

    def key(self) -> object:
        tasks = tuple(task.key() for task in self.tasks)
        return (self.name, self.driver, self.reports_key(), self.failed, self.error, tasks)
