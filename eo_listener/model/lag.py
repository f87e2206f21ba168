"""Computes the lag of a group behind the ends of its topics' logs. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The position of a group in one partition.

    `committed` is None if the group holds no offset, `log_end` is None if the partition no longer
    exists. `writer` is None if eo_listener did not make the commit. `stable_end` is the start of
    the first open transaction, or the log end if no transaction is open. `oldest_ms` is the time of
    the oldest unread record. Both are None if they were not read.
    """

    partition: TopicPartition
    committed: int | None
    log_end: int | None
    writer: CommitMetadata | None
    stable_end: int | None = None
    oldest_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """The number of records still to read, or None if `committed` or `log_end` is unknown.

        The lag is below zero if the group is ahead of the log, for instance after a topic was
        recreated.
        """
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed

    @property
    def stable_lag(self) -> int | None:
        """The lag of a read_committed consumer, which cannot read beyond an open transaction."""
        if self.committed is None or self.stable_end is None:
            return None
        return self.stable_end - self.committed

    def age(self, now_ms: int) -> float | None:
        """Return the age of the oldest unread record, in seconds, or None if it is unknown."""
        if self.oldest_ms is None or not self.lag or self.lag < 0:
            return None
        return max(0.0, (now_ms - self.oldest_ms) / 1000)


def compare(
    committed: Mapping[TopicPartition, Position],
    log_ends: Mapping[TopicPartition, int],
    stable_ends: Mapping[TopicPartition, int] = MappingProxyType({}),
    oldest_ms: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> tuple[PartitionLag, ...]:
    """Compare group offsets with log ends, partition by partition, in sorted order."""
    rows = []
    for tp in sorted({*committed, *log_ends}):
        position = committed.get(tp)
        rows.append(
            PartitionLag(
                partition=tp,
                committed=position.offset if position else None,
                log_end=log_ends.get(tp),
                writer=CommitMetadata.parse(position.metadata) if position else None,
                stable_end=stable_ends.get(tp),
                oldest_ms=oldest_ms.get(tp),
            )
        )
    return tuple(rows)


def total(rows: Sequence[PartitionLag], *, stable: bool = False) -> int | None:
    """Return the sum of all lags, or None if one is unknown; with `stable`, sum `stable_lag`."""
    lags = [row.stable_lag if stable else row.lag for row in rows]
    return None if None in lags else sum(filter(None, lags))


def oldest(rows: Sequence[PartitionLag], now_ms: int) -> float | None:
    """Return the age of a group's oldest unread record, in seconds, or None if it is unknown."""
    return max((age for row in rows if (age := row.age(now_ms)) is not None), default=None)
