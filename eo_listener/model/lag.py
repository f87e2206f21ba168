"""How far a group is behind its topics: pure arithmetic over two maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.offsets import Position, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """Where a group stands in one partition.

    `committed` is None where the group holds no offset, `log_end` is None where the
    partition is gone. `writer` is None when the commit was not made by eo_listener.
    """

    partition: TopicPartition
    committed: int | None
    log_end: int | None
    writer: CommitMetadata | None

    @property
    def lag(self) -> int | None:
        """Records still to read; None when one of the two ends is unknown.

        Below zero when the group is ahead of the log, as after a topic was recreated.
        """
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed


def compare(
    committed: Mapping[TopicPartition, Position], log_ends: Mapping[TopicPartition, int]
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
            )
        )
    return tuple(rows)


def total(rows: tuple[PartitionLag, ...]) -> int | None:
    """The sum of all lags, or None when one of them is unknown."""
    lags = [row.lag for row in rows]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None
