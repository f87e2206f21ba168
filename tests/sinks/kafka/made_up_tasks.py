"""Executors that are none: rows of Arrow tables, sent as the tasks of the shim send them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from zlib import crc32

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from eo_listener.kafka.java_transactions import TaskReport
from eo_listener.model.fault_points import fault_point
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import method_choice
from eo_listener.sinks.kafka.row_identity import HEADER, RowIdentity, around_values, identity_values
from eo_listener.sinks.kafka.task_rows import PRESENT, TWICE, Places, RowsTarget, TaskRows
from eo_listener.sinks.kafka.types import Record


class Sent(NamedTuple):
    """A record on its way, to which partition; its headers say which row it is."""

    partition: int
    record: Record
    headers: list[tuple[str, Any]]


class Queues(NamedTuple):
    """The rows of each task, in their order; and how many have an identity that is there."""

    of_tasks: Mapping[int, list[Sent]]
    met: int
    twice: int


def header_of(identity: RowIdentity) -> str:
    before, after = around_values(identity.writer, identity.batch)
    return before + identity.values + after


def in_order(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in names])


def place_of(values: str, partitions: int) -> int:
    """The partition of a row without a key, as the shim chooses it: always the same."""
    return crc32(values.encode()) % partitions


def queues(rows: TaskRows, target: RowsTarget, there: Places, partitions: int) -> Queues:
    """Bring each row that is not `there` to the task of its partition."""
    found: dict[int, list[Sent]] = {number: [] for number in range(partitions)}
    counts: Counter[str] = Counter()
    met = 0
    for part in in_order(rows._frame, rows.identity).to_batches():
        records = rows._columns.records(part, target.targets)
        for values, record in zip(identity_values(part, rows.identity), records, strict=True):
            assert isinstance(record, Record)
            counts[values] += 1
            if values in there:
                met += 1
                continue
            number = record.partition
            if number < 0 and record.key is None:
                number = place_of(values, partitions)
            elif number < 0:
                number = crc32(str(record.key).encode()) % partitions
            identity = header_of(RowIdentity(target.writer, target.batch, values))
            headers = [*(record.headers or ()), (HEADER, identity)]
            found[number].append(Sent(number, record, headers))
    return Queues(found, met, sum(1 for count in counts.values() if count > 1))


def report(
    number: int,
    records: int = 0,
    *,
    topic: str = "out",
    attempt: int = 0,
    refused: Mapping[int, int] = MappingProxyType({}),
    error: Mapping[str, str] | None = None,
) -> TaskReport:
    """What the task of this partition says."""
    return TaskReport(
        partition_id=number,
        attempt=attempt,
        stage_attempt=0,
        records={TopicPartition(topic, number): records} if records else {},
        refused=refused,
        error=error,
    )


class MadeUpTasks:
    """Says what the shim says of tasks; they send to a broker, one partition after the other."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.there: Places = {}
        self.found: list[TaskReport] = []

    def missing(self) -> None:
        """Any kafka-clients will do."""

    def open_batch(self, batch: str, *, topics: Any, tasks: int, transaction: None) -> None:
        self.found = []

    def leave_out(self, batch: str, identities: Places) -> None:
        self.there = identities

    def run(self, rows: TaskRows, target: RowsTarget) -> None:
        ((topic, one),) = target.targets.topics.items()
        made = queues(rows, target, self.there, len(one.partitions))
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for queue in () if made.twice else made.of_tasks.values():
            for partition, record, headers in queue:
                producer.produce(topic, record.value, record.key, partition, headers=headers)
            assert producer.flush(30) == 0
            fault_point("made-up.sent")
        refused = {reason: n for reason, n in ((PRESENT, made.met), (TWICE, made.twice)) if n}
        self.found = [
            report(number, len(queue), topic=topic, refused={} if number else refused)
            for number, queue in made.of_tasks.items()
        ]

    def reports(self, batch: str) -> tuple[int, Sequence[TaskReport]]:
        return len(self.found), self.found

    def is_running(self, batch: str) -> bool:
        return False

    def close_batch(self, batch: str) -> None:
        pass

    def close(self) -> None:
        pass


def with_made_up_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sinks without transactions write Arrow tables by such tasks, one a partition."""

    def joining(frame: pa.Table, properties: Mapping[str, str], _: Any) -> Any:
        return MadeUpTasks(properties["bootstrap.servers"])

    def run(self: TaskRows, batch: str, topics: Any, target: RowsTarget) -> None:
        cast(MadeUpTasks, self._transactions).run(self, target)
        self._tasks = len(cast(MadeUpTasks, self._transactions).found)

    monkeypatch.setattr(method_choice, "joining", joining)
    monkeypatch.setattr(method_choice, "task_count", lambda frame: 1)
    monkeypatch.setattr(TaskRows, "_run", run)
