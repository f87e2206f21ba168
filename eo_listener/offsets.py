"""Partitions, offsets and ranges of offsets, as the whole package uses them.

An offset is always that of the *next* record to read, as in Kafka's own group offsets and in
Spark's progress events. Nothing in this package adds 1 to such an offset, or subtracts 1; only the
offset of a single record becomes a range of one.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

_SHOWN = 5  # partitions named in a line


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `until`."""

    start: int
    until: int

    def __str__(self) -> str:
        return f"{self.start}..{self.until}"


class Offsets(Mapping[TopicPartition, int]):
    """An immutable map from partition to the next offset to read, in sorted order.

    Raises ValueError for a negative partition or offset: Spark's -1 and -2 (latest and
    earliest) and Kafka's -1001 are special values, not positions.
    """

    __slots__ = ("_hash", "_map")

    def __init__(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        ordered = dict(sorted((positions or {}).items()))
        for tp, offset in ordered.items():
            if tp.partition < 0 or offset < 0:
                raise ValueError(f"{tp} at {offset} is not a position")
        self._map = ordered
        self._hash: int | None = None

    @classmethod
    def of(cls, topics: Mapping[str, Mapping[int, int]]) -> Offsets:
        """Return the offsets of a nested map, `{topic: {partition: offset}}`."""
        return cls({TopicPartition(t, p): o for t, ps in topics.items() for p, o in ps.items()})

    def __getitem__(self, tp: TopicPartition) -> int:
        return self._map[tp]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._map)

    def __len__(self) -> int:
        return len(self._map)

    def items(self) -> ItemsView[TopicPartition, int]:
        """Return the pairs of partition and offset; the inherited view looks up each key."""
        return self._map.items()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._map.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Offsets({', '.join(f'{tp}: {offset}' for tp, offset in self._map.items())})"

    def __str__(self) -> str:
        """Return the first few positions and the count of the others, for errors and log lines."""
        shown = ", ".join(f"{tp}: {at}" for tp, at in islice(self._map.items(), _SHOWN))
        more = len(self) - _SHOWN
        return f"{shown} and {more} more" if more > 0 else shown or "none"

    def topics(self) -> tuple[str, ...]:
        """Return the topics of the partitions, each once, in order."""
        return tuple(dict.fromkeys(tp.topic for tp in self._map))

    def where(self, keep: Callable[[TopicPartition], bool]) -> Offsets:
        """Return the offsets of the partitions for which `keep` is true."""
        return Offsets({tp: offset for tp, offset in self._map.items() if keep(tp)})

    def merge(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """Return the offsets of both maps; if both have a partition, the greater offset counts."""
        merged = dict(self._map)
        for tp, offset in offsets.items():
            merged[tp] = max(offset, merged.get(tp, offset))
        return Offsets(merged)

    def without(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offsets of all partitions except `partitions`."""
        dropped = frozenset(partitions)
        return self.where(lambda tp: tp not in dropped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The current or the wanted position of a consumer group in one partition."""

    offset: int
    metadata: str = ""
