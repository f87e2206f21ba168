"""However much an event holds, a line of the log stays short, and says what to do."""

from __future__ import annotations

import logging
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from eo_listener.client_config.admin_commands import right_to_add
from eo_listener.model import events
from eo_listener.model.events import CommitAbandoned, CommitFailed, Committed, Event
from eo_listener.model.offsets import Offsets, TopicPartition
from eo_listener.observers.log import LONGEST, EventLogger


def kinds() -> list[type[Event]]:
    """Every kind of event that there is."""
    return [one for one in vars(events).values() if isinstance(one, type) and issubclass(one, Event)
            and one is not Event]  # fmt: skip


class Filled:
    """Builds values of any type that an event holds: so many partitions, texts so long."""

    def __init__(self, partitions: int, letters: int) -> None:
        self.text = "x" * letters
        topic = "t" * min(letters, 245)
        self.partitions = [
            TopicPartition(f"{topic}{number % 1000}", number // 1000)
            for number in range(partitions)
        ]

    def event(self, kind: type[Event]) -> Event:
        found = self.of(kind)
        assert isinstance(found, Event)
        return found

    def of(self, kind: Any) -> Any:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if kind is Offsets:
            return Offsets(dict.fromkeys(self.partitions, 10**15))
        if origin in (typing.Union, types.UnionType):
            return self.of(next(one for one in inner if one is not type(None)))
        if origin is not None and issubclass(origin, Mapping):
            return {one: self.of(inner[1]) for one in self.keys(inner[0])}
        if origin in (tuple, frozenset):
            return origin(self.items(inner[0]))
        if isinstance(kind, type) and issubclass(kind, Enum):
            return list(kind)[-1]
        if kind is TopicPartition:
            return self.partitions[0]
        if is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            return kind(**{one.name: self.of(hints[one.name]) for one in fields(kind)})  # type: ignore[operator]  # a class
        if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
            return kind(*map(self.of, typing.get_type_hints(kind).values()))
        return {str: self.text, int: 10**15, float: 1e9, bool: True}[kind]

    def keys(self, kind: Any) -> list[Any]:
        return self.partitions if kind is TopicPartition else [self.of(kind)]

    def items(self, kind: Any) -> Iterator[Any]:
        if kind is TopicPartition:
            yield from self.partitions
            return
        some = len(self.partitions) if "Violation" in str(kind) else 3  # others hold all of them
        for one in self.partitions[:some]:
            yield (self.of(kind) if not typing.get_args(kind) else (self.text, str(one)))


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize(("partitions", "letters"), [(1, 5), (6, 245), (5000, 245), (7, 5000)])
def test_no_line_is_long(
    kind: type[Event], partitions: int, letters: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With thousands of partitions, the longest names, and texts of any length."""
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        EventLogger()(Filled(partitions, letters).event(kind))
    assert all(len(record.getMessage()) <= LONGEST for record in caplog.records)


def test_every_kind_of_event_is_met() -> None:
    """And most of them are told, so that what is above looks at something."""
    told = []
    for kind in kinds():
        log = logging.getLogger("eo_listener")
        handler = logging.Handler()
        handler.emit = lambda record, kind=kind: told.append(kind)  # type: ignore[method-assign, misc]  # counts them
        log.addHandler(handler)
        level = log.level
        log.setLevel(logging.DEBUG)
        try:
            EventLogger()(Filled(5, 5).event(kind))
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
    assert len(kinds()) > 20
    assert {one.__name__ for one in kinds()} - {one.__name__ for one in told} == {
        "QueryProgressed",
        "QueryReported",
        "RunGroupsChanged",
    }


def test_a_long_line_keeps_what_happened_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    """Its middle is left out, and it says how much."""
    failed = Filled(5000, 245).event(CommitFailed)
    assert isinstance(failed, CommitFailed)
    command = right_to_add(failed, "User:al")
    assert command is None
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        EventLogger()(failed)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("group xxx")
    assert line.endswith("the newest offsets are kept and committed again")


def test_a_few_partitions_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """The first five and how many more; all of them where there are no more."""
    many = Offsets({TopicPartition("t", number): number for number in range(7)})
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        EventLogger()(CommitAbandoned(cluster="k:9092", group="g", offsets=many))
        EventLogger()(Committed(cluster="k:9092", group="g", offsets=Offsets(), seconds=0.1))
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].endswith(": t-0: 0, t-1: 1, t-2: 2, t-3: 3, t-4: 4 and 2 more")
    assert lines[-1].endswith("committed none")
    assert str(many.without([TopicPartition("t", 5), TopicPartition("t", 6)])).endswith("t-4: 4")
