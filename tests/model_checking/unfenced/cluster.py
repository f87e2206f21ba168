"""Kafka as a sink without transactions sees it: logs that take whatever comes, from anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eo_listener.kafka.range_reader import StoredRecord, TargetLog
from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import ledger

TARGET, LEDGER = "out", "ledger"
PARTITIONS = 2
SINK = "sink"
Headers = list[tuple[str, Any]]


class Row(NamedTuple):
    """A record of the target: its headers, and who has sent it."""

    headers: Headers
    by: str


@dataclass(slots=True)
class Cluster:
    """`reached` is called before each thing that anybody does, with who and what."""

    ledger: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    writers: list[str] = field(default_factory=list)  # of the ledger's records
    logs: dict[int, list[Row]] = field(
        default_factory=lambda: {number: [] for number in range(PARTITIONS)}
    )
    reached: Callable[[str, str], None] = lambda by, what: None

    def rows(self) -> Iterator[tuple[TopicPartition, int, Row]]:
        for number, log in self.logs.items():
            for offset, row in enumerate(log):
                yield TopicPartition(TARGET, number), offset, row

    def append(self, number: int, row: Row) -> None:
        self.logs[number].append(row)


class LedgerTopic:
    """What the sink asks its ledger's topic."""

    name = LEDGER
    partitions = 1

    def __init__(self, cluster: Cluster, by: str) -> None:
        self.cluster = cluster
        self.by = by
        self.read = self.counted = 0
        self.records = ledger.LedgerRecords({})

    def heads(self, query: str, explain: Any, *, fenced: bool) -> Mapping[TopicPartition, Head]:
        self.cluster.reached(self.by, "ledger")
        newest = dict(self.cluster.ledger)
        values = {key: (value, 0) for key, value in newest.items() if value is not None}
        self.records = ledger.Decoder().decode(values)
        self.read = len(self.cluster.ledger)
        return self.records.heads(SINK, query)

    def count_written(self, query: str, partition: int) -> int:
        self.cluster.reached(self.by, "count")
        self.counted = len(self.cluster.ledger)
        return self.counted - self.read

    def met(self) -> set[str]:
        """Who had written between the reading and the last counting."""
        return set(self.cluster.writers[self.read : self.counted])


class TargetLogs:
    """What the sink asks its target."""

    def __init__(self, cluster: Cluster, by: str) -> None:
        self.cluster = cluster
        self.by = by

    def topics(self, names: Any) -> Mapping[str, TargetLog]:
        self.cluster.reached(self.by, "ends")
        ranges = {number: OffsetRange(0, len(log)) for number, log in self.cluster.logs.items()}
        return {TARGET: TargetLog(id="id", ranges=ranges)}

    def policy(self, topic: str) -> str:
        return "delete"

    def records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterator[StoredRecord]:
        self.cluster.reached(self.by, "tail")
        for tp, one in ranges.items():
            for offset in range(*one):
                yield StoredRecord(tp, offset, self.cluster.logs[tp.partition][offset].headers)


class Producer:
    """The driver's: it sends records of the ledger."""

    def __init__(self, cluster: Cluster, by: str) -> None:
        self.cluster = cluster
        self.by = by
        self.begun: list[tuple[bytes, bytes | None]] = []

    def connect(self, topic: str) -> None:
        pass

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        partition: int,
    ) -> None:
        assert (topic, partition) == (LEDGER, 0)
        self.begun.append((key, value))

    def flush(self, timeout: float | None = None) -> None:
        begun, self.begun = self.begun, []
        for record in begun:
            self.cluster.reached(self.by, "record")
            self.cluster.ledger.append(record)
            self.cluster.writers.append(self.by)
        self.cluster.reached(self.by, "flushed")

    def leave(self) -> None:
        self.begun = []
