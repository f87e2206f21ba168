"""Heads as a ledger outside of SQL writes them: who has moved them once, then a row each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from eo_listener.model.ledger import Head
from eo_listener.model.offsets import OffsetRange, TopicPartition

Heads = Mapping[TopicPartition, Head]


class Mover(NamedTuple):
    """Who has moved a head, in which batch, and under which id its topic was read."""

    query_id: str
    run_id: str
    batch_id: int
    topic_id: str | None


class Movers:
    """The movers of the heads that are written together, each once."""

    def __init__(self) -> None:
        self._numbers: dict[Mover, int] = {}

    def row(self, tp: TopicPartition, head: Head) -> list[int]:
        """Return a head as [partition, start, until, number of its mover]."""
        mover = Mover(head.query_id, head.run_id, head.batch_id, head.topic_id)
        number = self._numbers.setdefault(mover, len(self._numbers))
        return [tp.partition, *head.range, number]

    @property
    def listed(self) -> list[Mover]:
        """By number."""
        return list(self._numbers)


def read_row(topic: str, row: Any, movers: Any) -> tuple[TopicPartition, Head]:
    """Read what `Movers.row` has written, out of JSON.

    Raises TypeError, ValueError or IndexError for anything else.
    """
    partition, start, until, number = (_count(one) for one in row)
    query_id, run_id, batch_id, topic_id = movers[number]
    if start > until:
        raise ValueError("a range ends before it starts")
    head = Head(
        range=OffsetRange(start, until),
        topic_id=None if topic_id is None else _text(topic_id),
        query_id=_text(query_id),
        run_id=_text(run_id),
        batch_id=_count(batch_id),
    )
    return TopicPartition(topic, partition), head


def _count(given: Any) -> int:
    if type(given) is not int or given < 0:  # JSON's true is 1, and -1 is the last of a list
        raise TypeError("not a number from 0 on")
    return given


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError("not a text")
    return given
