"""A consumer under read_committed that reads the target topic from its first record to its last."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as Wire

from examples.demo.demo_settings import TARGET
from examples.demo.demo_target import DemoTarget
from examples.demo.read_records import ReadRecords, SourceRecord
from examples.demo.results import Delay
from examples.demo.stored_rows import ReaderReport, Rows, StoredRows

_TIMEOUT: Final = 10.0  # seconds for an answer, and for a round
_AT_ONCE: Final = 5_000  # messages


class TopicReader(StoredRows):
    """The flights in the topic, as they were read last; read to its ends again and again.

    Not for two threads at once.
    """

    pause = 0.05

    def __init__(self, target: DemoTarget) -> None:
        super().__init__()
        self._records = ReadRecords()
        self._delays: defaultdict[tuple[str, int], _Sums] = defaultdict(_Sums)
        self._at: dict[int, int] = {}  # the next offset to read, markers passed
        self._consumer = Consumer(
            {
                "bootstrap.servers": target.where,
                "group.id": "flights-reader",  # librdkafka wants one; it is never joined
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )

    def read(self) -> None:
        """Read to where the topic ends now; what was read stays where Kafka does not answer."""
        deadline = time.monotonic() + _TIMEOUT
        try:
            ends = self._ends()
            while any(self._at[number] < end for number, end in ends.items()):
                if time.monotonic() > deadline:
                    return
                for message in self._consumer.consume(_AT_ONCE, timeout=0.05):
                    self._take(message)
        except KafkaException:
            return  # the next round is near
        self._records.round_ended()
        self.delays = tuple(sums.delay(*key) for key, sums in self._delays.items())

    def count(self, ends: Mapping[int, int]) -> tuple[dict[int, Rows], int]:
        """Count the rows of each source partition, up to where its log ends; and all there are."""
        return self._records.count(ends)

    def report(self) -> ReaderReport:
        """What was seen, and what was wrong with it."""
        return self._records.report()

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def _ends(self) -> dict[int, int]:
        """Up to where a reader under read_committed is shown each partition now."""
        if not self._at:
            found = self._consumer.list_topics(TARGET, timeout=_TIMEOUT).topics[TARGET].partitions
            self._consumer.assign([Wire(TARGET, number, OFFSET_BEGINNING) for number in found])
            self._at = dict.fromkeys(found, 0)
        wanted = [Wire(TARGET, number, OFFSET_END) for number in self._at]
        answers = self._consumer.offsets_for_times(wanted, timeout=_TIMEOUT)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return {answer.partition: answer.offset for answer in answers}

    def _take(self, message: Message) -> None:
        number, place = message.partition(), message.offset()
        error = message.error()
        at_end = error is not None and error.name() == "_PARTITION_EOF"
        if number is None or place is None or not (error is None or at_end):
            raise KafkaException(error)
        if at_end:
            self._at[number] = max(self._at[number], place)
        else:
            self._records.take(number, place, _source(message))
            flight = json.loads(message.value() or b"")
            self._delays[flight["origin"], flight["hour"]].add(flight["dep_delay"])
            self._at[number] = place + 1


class _Sums:
    """The departures of one airport in one hour."""

    def __init__(self) -> None:
        self.flights = self.cancelled = self.minutes = 0

    def add(self, minutes: int | None) -> None:
        self.flights += 1
        if minutes is None:
            self.cancelled += 1
        else:
            self.minutes += minutes

    def delay(self, origin: str, hour: int) -> Delay:
        left = self.flights - self.cancelled
        return Delay(
            origin=origin,
            hour=hour,
            flights=self.flights,
            cancelled=self.cancelled,
            minutes=self.minutes / left if left else None,
        )


def _source(message: Message) -> SourceRecord:
    """Read the headers by which the query says where a row is from."""
    headers: dict[str, Any] = dict(message.headers() or [])
    return SourceRecord(*(int(headers[name]) for name in SourceRecord._fields))
