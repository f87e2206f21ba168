"""How far a group is behind its topics: pure arithmetic over two maps."""

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
    exists. `writer` is None if the commit was not made by eo_listener. `stable_end` is the start of
    the first open transaction, or the log end, and `oldest_ms` the time of the oldest unread
    record; both are None if they were not read.
    """

    partition: TopicPartition
    committed: int | None
    log_end: int | None
    writer: CommitMetadata | None
    stable_end: int | None = None
    oldest_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Records still to read; None when one of the two ends is unknown.

        Below zero when the group is ahead of the log, as after a topic was recreated.
        """
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed

    @property
    def stable_lag(self) -> int | None:
        """The lag of a consumer under read_committed, for which an open transaction is no lag."""
        if self.committed is None or self.stable_end is None:
            return None
        return self.stable_end - self.committed

    def age(self, now_ms: int) -> float | None:
        """How old the oldest record is that is still to be read, in seconds; None where unknown."""
        if self.oldest_ms is None or not self.lag or self.lag < 0:
            return None
        return max(0.0, (now_ms - self.oldest_ms) / 1000)


def compare(
    committed: Mapping[TopicPartition, Position],
    log_ends: Mapping[TopicPartition, int],
    stable_ends: Mapping[TopicPartition, int] = MappingProxyType({}),
    oldest_ms: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> tuple[PartitionLag, ...]:
    """Lay group offsets and log ends side by side, in order of topic and partition."""
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
    """The sum of all lags, or None when one of them is unknown; `stable`: under read_committed."""
    lags = [row.stable_lag if stable else row.lag for row in rows]
    return None if None in lags else sum(filter(None, lags))


def oldest(rows: Sequence[PartitionLag], now_ms: int) -> float | None:
    """The age of the oldest record that a group has still to read, in seconds; None if unknown."""
    return max((age for row in rows if (age := row.age(now_ms)) is not None), default=None)
