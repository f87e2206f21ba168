"""What the ledger's topic holds of a batch without transactions: begun, or applied. No I/O.

Format 1. A run has one record of each sink and query, which it writes before a batch's first row,
and again once every row is acknowledged. That second record is the batch's commit: the heads it
moves are those of its moves, until a later batch has written them into the records of heads.

A run has a key of its own, so that a driver that was replaced and goes on takes nothing away from
its successor's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from eo_listener.model.errors import FormatError
from eo_listener.model.ledger import FORMAT, Head
from eo_listener.model.offsets import OffsetRange, TopicPartition

Ranges = Mapping[TopicPartition, OffsetRange]


class BatchKey(NamedTuple):
    """Whose record it is."""

    sink: str
    query: str
    run: str

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return encoded({"v": FORMAT, **self._asdict()})


@dataclass(frozen=True, slots=True)
class TargetEnds:
    """Where the logs of a target's partitions ended; `id` is the topic's, None where unknown."""

    id: str | None
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch that was begun, or was applied where `size` is set.

    `number` counts the batches of a sink and query, from 1. `moves` are its ranges; `topic_ids` has
    what tells the topics of all its ranges from others of their names. `left` has what was begun
    under this number and is not applied: more than the moves where a batch of another checkpoint
    was shorter than the one before it. `since` has
    the ends of the targets before the first row of this number, and `size` is how many offsets were
    behind them after the last. `rows` is how many of these are rows of this number; None where the
    record does not say. `identity` names the columns by which rows are known.
    """

    number: int
    query_id: str
    run_id: str
    batch_id: int
    identity: tuple[str, ...]
    moves: Ranges
    topic_ids: Mapping[str, str | None]
    left: Ranges
    since: Mapping[str, TargetEnds]
    size: int | None = None
    rows: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether all that was begun is applied."""
        return self.size is not None and not self.left

    def heads(self) -> dict[TopicPartition, Head]:
        """The heads that it has moved; none where it was only begun."""
        if self.size is None:
            return {}
        return {
            tp: Head(
                range=one,
                topic_id=self.topic_ids[tp.topic],
                query_id=self.query_id,
                run_id=self.run_id,
                batch_id=self.batch_id,
            )
            for tp, one in self.moves.items()
        }

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return encoded(
            {
                "v": FORMAT,
                "number": self.number,
                "moved": [self.query_id, self.run_id, self.batch_id],
                "id": list(self.identity),
                "moves": self._topics(self.moves),
                "left": self._topics(self.left),
                "since": [
                    [name, one.id, sorted(one.ends.items())] for name, one in self.since.items()
                ],
                "size": self.size,
                "rows": self.rows,
            }
        )

    def _topics(self, ranges: Ranges) -> list[list[Any]]:
        return [[name, self.topic_ids[name], rows] for name, rows in _by_topic(ranges).items()]

    @classmethod
    def decode(cls, given: Mapping[str, Any]) -> BatchRecord:
        """Read it. Raises FormatError."""
        try:
            query_id, run_id, batch_id = given["moved"]
            return cls(
                number=given["number"],
                query_id=query_id,
                run_id=run_id,
                batch_id=batch_id,
                identity=tuple(given["id"]),
                moves=_ranges((name, rows) for name, _, rows in given["moves"]),
                topic_ids={
                    name: topic_id for name, topic_id, _ in (*given["moves"], *given["left"])
                },
                left=_ranges((name, rows) for name, _, rows in given["left"]),
                since={
                    name: TargetEnds(topic_id, dict(ends))
                    for name, topic_id, ends in given["since"]
                },
                size=given["size"],
                rows=given.get("rows"),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise FormatError(
                f"the ledger's topic holds a batch that cannot be read: {type(error).__name__}",
                cause="another program writes to this topic",
                fix="Give the ledger a topic of its own, ledger_topic=",
            ) from error


def newest(records: Iterable[BatchRecord]) -> BatchRecord | None:
    """The batch that counts, of those of all runs: of the highest number, and rather applied.

    Of several that were begun under one number the lowest ends count: whose rows came first is not
    known, and to read more of a log than is needed does no harm.
    """
    found = sorted(records, key=lambda one: (one.number, one.size is not None))
    if not found:
        return None
    last = found[-1]
    if last.size is None:
        for other in found[:-1]:
            if other.number == last.number:
                last = replace(
                    last,
                    since=_lowest(last.since, other.since),
                    left={**other.left, **last.left},
                    topic_ids={**other.topic_ids, **last.topic_ids},
                )
    return last


def _lowest(
    one: Mapping[str, TargetEnds], other: Mapping[str, TargetEnds]
) -> dict[str, TargetEnds]:
    both = {**other, **one}
    for name in one.keys() & other.keys():
        if one[name].id == other[name].id:
            ends, others = one[name].ends, other[name].ends
            lower = {at: min(ends[at], others[at]) for at in ends.keys() & others.keys()}
            both[name] = TargetEnds(one[name].id, lower)
    return both


def _by_topic(ranges: Ranges) -> dict[str, list[list[int]]]:
    found: defaultdict[str, list[list[int]]] = defaultdict(list)
    for tp, one in sorted(ranges.items()):
        found[tp.topic].append([tp.partition, *one])
    return found


def _ranges(topics: Iterable[tuple[str, list[list[int]]]]) -> dict[TopicPartition, OffsetRange]:
    return {
        TopicPartition(name, number): OffsetRange(start, until)
        for name, rows in topics
        for number, start, until in rows
    }


def encoded(value: object) -> bytes:
    """JSON as the ledger's topic holds it: the same bytes for the same value."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
