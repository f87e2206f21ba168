"""A reader under read_committed that runs all the time, and what is wrong with what it is shown."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import final

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Wire

Seen = Mapping[int, Sequence[str]]


@final
class Reader:
    """Reads a topic from its beginning until the `with` block ends."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "tests-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        self._consumer.assign([Wire(topic, part, OFFSET_BEGINNING) for part in range(partitions)])
        self._seen: defaultdict[int, list[str]] = defaultdict(list)
        self._ends = threading.Event()
        self._failed: list[str] = []
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="tests-reader")

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join(10)
        self._consumer.close()

    def seen(self, records: int, timeout: float) -> Seen:
        """What it has been shown by partition, once it is so many records or the time is over."""
        with self._more:
            self._more.wait_for(lambda: self._count() >= records, timeout)
            assert not self._failed, self._failed
            return {partition: tuple(values) for partition, values in self._seen.items()}

    def _count(self) -> int:
        return sum(len(values) for values in self._seen.values())

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error, partition, value = message.error(), message.partition(), message.value()
            with self._more:
                if error is not None:
                    self._failed.append(error.str())
                elif partition is not None and value is not None:
                    self._seen[partition].append(value.decode())
                self._more.notify_all()


def wrong(seen: Seen, rows: Mapping[int, int], *, ordered: bool = True) -> list[str]:
    """What is wrong: all of each batch is there once, batches in order; rows too if `ordered`."""
    found = Counter(value for values in seen.values() for value in values)
    expected = {f"{batch}.{row}" for batch, count in rows.items() for row in range(count)}
    places = {
        partition: [_place(value)[: 1 + ordered] for value in values]
        for partition, values in seen.items()
    }
    disordered = [
        f"partition {partition} is not in order: {list(seen[partition])}"
        for partition, order in places.items()
        if order != sorted(order)
    ]
    return [
        *(f"shown {count} times: {value}" for value, count in found.items() if count > 1),
        *(f"not shown: {value}" for value in sorted(expected - found.keys())),
        *(f"shown, and never written: {value}" for value in sorted(found.keys() - expected)),
        *disordered,
    ]


def _place(value: str) -> tuple[int, int]:
    """The numbers of the batch and the row."""
    batch, _, row = value.partition(".")
    return int(batch), int(row)
