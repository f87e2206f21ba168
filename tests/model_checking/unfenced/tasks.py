"""Spark's executors, as a sink without transactions sees them: a task for each partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from eo_listener.kafka.java_transactions import TaskReport
from eo_listener.sinks.kafka.task_rows import PRESENT, Places, RowsTarget, TaskRows
from tests.model_checking.unfenced.cluster import PARTITIONS, TARGET, Cluster, Row
from tests.sinks.kafka.made_up_tasks import queues, report

Rows = list[tuple[int, Row]]


class TaskLost(BaseException):
    """The first attempt of the task that sends is lost; the next one sends nothing."""

    def __init__(self, *, outlives: bool) -> None:
        self.outlives = outlives


class Tasks:
    """What the shim says of one driver's tasks; `lost` is what lost ones had still to send."""

    def __init__(self, cluster: Cluster, by: str, late: frozenset[int]) -> None:
        self.cluster = cluster
        self.by = by
        self.late = late
        self.lost: Rows = []
        self.running: Rows = []
        self.found: list[TaskReport] = []
        self.there: Places = {}
        self.in_flight: tuple[int, Row] | None = None

    def open_batch(self, batch: str, *, topics: Any, tasks: int, transaction: None) -> None:
        self.found = []

    def leave_out(self, batch: str, identities: Places) -> None:
        self.there = identities

    def reports(self, batch: str) -> tuple[int, Sequence[TaskReport]]:
        return len(self.found), self.found

    def is_running(self, batch: str) -> bool:
        if not self.running:
            return False
        self.cluster.reached(self.by, "row of another try")
        if self.running:
            self.cluster.append(*self.running.pop(0))
        return True

    def come(self) -> None:
        """What was lost comes after all."""
        rows, self.lost[:] = list(self.lost), []
        for row in rows:
            self.cluster.append(*row)

    def close_batch(self, batch: str) -> None:
        pass

    def run(self, rows: TaskRows, target: RowsTarget) -> None:
        """Send what is not there, a row of each task in turn; `late` tasks come at last."""
        made = queues(rows, target, self.there, PARTITIONS)
        todo: dict[int, Rows] = {
            number: [(number, Row(one.headers, self.by)) for one in queue]
            for number, queue in made.of_tasks.items()
        }
        counts = {number: len(queue) for number, queue in todo.items()}
        attempts = dict.fromkeys(todo, 0)
        first = [todo[number] for number in todo if number not in self.late]
        for group in (first, [todo[number] for number in todo if number in self.late]):
            while any(group):
                for queue in filter(None, group):
                    try:
                        self._send(queue)
                    except TaskLost as lost:
                        attempts[queue[0][0]] = 1
                        self.lost = list(queue)
                        self.running = self.lost if lost.outlives else []
                        queue.clear()
        self.found = [
            report(
                number,
                0 if attempt else counts[number],
                topic=TARGET,
                attempt=attempt,
                refused={} if number else {PRESENT: made.met},
            )
            for number, attempt in attempts.items()
        ]

    def _send(self, queue: Rows) -> None:
        self.in_flight = queue[0]
        self.cluster.reached(self.by, "row")
        self.cluster.append(*queue.pop(0))
        self.in_flight = None


class RowsByTasks(TaskRows):
    """With these executors instead of Spark's."""

    def _run(self, batch: str, topics: Any, target: RowsTarget) -> None:
        cast(Tasks, self._transactions).run(self, target)
