"""How long a reader of ranges waits. No broker: what comes is made up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from eo_listener.kafka.client import ConnectionErrors
from eo_listener.kafka.range_reader import RangeReader
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

BUSY, SILENT = TopicPartition("out", 0), TopicPartition("out", 1)


class Message:
    """A record."""

    def __init__(self, tp: TopicPartition, offset: int) -> None:
        self._tp, self._offset = tp, offset

    def topic(self) -> str:
        return self._tp.topic

    def partition(self) -> int:
        return self._tp.partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None


class Traffic:
    """A consumer that gives these messages, and then more and more of one partition."""

    def __init__(self, *messages: Message) -> None:
        self.messages = self._all(messages)

    def _all(self, messages: tuple[Message, ...]) -> Iterator[Message]:
        yield from messages
        for offset in range(10, 300):
            yield Message(BUSY, offset)
        raise AssertionError("it would go on for ever")

    def assign(self, _: Any) -> None:
        pass

    def unassign(self) -> None:
        pass

    def poll(self, _: float) -> Message:
        time.sleep(0.01)
        return next(self.messages)

    def consume(self, _: int, timeout: float) -> list[Message]:
        return []

    def close(self) -> None:
        pass


def reader(monkeypatch: pytest.MonkeyPatch, *messages: Message) -> RangeReader:
    properties = {"bootstrap.servers": "127.0.0.1:1"}
    made = RangeReader(properties, "test", committed=False, errors=ConnectionErrors("nowhere"))
    made.close()
    monkeypatch.setattr(made, "consumer", Traffic(*messages))
    return made


def test_traffic_elsewhere_puts_no_deadline_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of a partition which has been read to its end, behind it or in another one."""
    reading = reader(monkeypatch, Message(BUSY, 0)).messages(
        {BUSY: OffsetRange(0, 1), SILENT: OffsetRange(0, 1)}, time.monotonic() + 0.2, silence=0.2
    )
    assert next(reading).offset() == 0
    with pytest.raises(KafkaError, match="reading out-1"):
        next(reading)


def test_what_is_to_be_read_puts_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, as long as it comes."""
    many = [Message(BUSY, offset) for offset in range(60)]
    ranges = {BUSY: OffsetRange(0, 60)}
    reading = reader(monkeypatch, *many).messages(ranges, time.monotonic() + 0.3, silence=0.3)
    assert len(list(reading)) == 60
