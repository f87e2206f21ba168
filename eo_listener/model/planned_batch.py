"""Spark's plan for one batch: its offsets, as known before any row of the batch is written.

The guard cannot read the offsets of sources that are not Kafka, so it counts their batches. For
such a source, eo_listener relies on Spark's guarantee: under one checkpoint, a batch that runs
again has the same records. So all such sources of a query count as one partition, whose offsets are
the numbers of the checkpoint's batches. Each batch has one such offset, even without new records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from eo_listener.errors import SettingsError
from eo_listener.offsets import OffsetRange, TopicPartition

BATCHES: Final = TopicPartition("checkpoint:batches", 0)
"""The partition of all counted sources.

Kafka has no such topic: topic names consist of letters, digits, `.`, `_`, `-`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSources:
    """The sources of a batch that are not Kafka: their indices, and the batch's plan ids.

    `plan_id` is the plan id of this batch; `before` is that of the previous batch in the
    checkpoint, or None for the first batch.
    """

    indices: tuple[int, ...]
    plan_id: str
    before: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """The plan of one batch: its offset ranges, including empty ones, by the source's index."""

    query_id: str
    run_id: str
    query: str | None
    """The query's name, or None if it has no name."""
    batch_id: int
    sources: Mapping[int, Mapping[TopicPartition, OffsetRange]]
    """The ranges of the sources that read Kafka."""
    counted: CountedSources | None = None
    """All other sources that have an offset, or None if all sources of the batch read Kafka."""
    stateful: bool = False
    """True if the output depends on more than the batch's own rows (aggregation, stream-stream
    join, deduplication): such a query must run each batch, even if its rows are discarded
    (SPARK-52008).
    """
    topic_ids: Mapping[str, str]
    """The ids of the topics that the batch reads.

    They were read from Kafka, like `log_starts` and `log_ends`, before any task could read records.
    """
    log_starts: Mapping[TopicPartition, int]
    log_ends: Mapping[TopicPartition, int]
    has_log_bounds: bool = False
    """True if `topic_ids`, `log_starts` and `log_ends` come from Kafka: then they leave out topics
    and partitions that do not exist. Otherwise the three maps are empty.
    """
    deterministic: bool = True
    """False if the rows may differ when they are computed again, according to Spark's plan before
    foreachBatch.
    """
    continued: frozenset[TopicPartition] = frozenset()
    """The partitions that an earlier batch of the checkpoint has planned: they start at the end of
    that batch. With counted sources, BATCHES is one of these partitions.
    """

    def began_at(self, initial: Mapping[TopicPartition, int]) -> PlannedBatch:
        """Return a plan in which `continued` lacks the partitions that still start at `initial`.

        `initial` are the offsets at which the query began to read, so earlier batches have read
        nothing from these partitions.
        """
        ranges = dict(chain.from_iterable(ranges.items() for ranges in self.sources.values()))
        unread = {
            tp for tp in self.continued & ranges.keys() if initial.get(tp) == ranges[tp].start
        }
        return replace(self, continued=self.continued - unread)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions that the batch reads, with BATCHES if there are counted sources."""
        counted = () if self.counted is None else (BATCHES,)
        return frozenset(chain(counted, *self.sources.values()))

    @property
    def count(self) -> OffsetRange:
        """The batch's range of the pseudo-partition BATCHES, if it has counted sources."""
        return OffsetRange(self.batch_id, self.batch_id + 1)

    def ranges(self) -> dict[TopicPartition, OffsetRange]:
        """Return the ranges of the Kafka partitions of all sources, in order.

        Raises SettingsError if the batch has no source, or if two sources read the same partition,
        for which a ledger has only one head.
        """
        if not self.sources and self.counted is None:
            raise SettingsError(
                f"batch {self.batch_id} has no source",
                cause="a batch is judged by the offsets of its sources, and it has none",
                fix="Pass the function to the foreachBatch of a query that reads a stream",
            )
        merged: dict[TopicPartition, OffsetRange] = {}
        for index, ranges in self.sources.items():
            twice = sorted(merged.keys() & ranges.keys())
            if twice:
                raise SettingsError(
                    f"two sources of the query read {twice[0]} (the second is source {index})",
                    cause="the ledger holds one position for each topic and partition, whichever "
                    "cluster the topic is on. If a stream is joined with itself, Spark makes two "
                    "sources of it, and each may read up to a different offset",
                    fix="(1) To read a topic twice, read it once and use that DataFrame twice: a "
                    "union of it with itself is one source. (2) A join of a stream with itself is "
                    "not supported: group by its key instead, or join in a separate query that "
                    "writes to a topic. (3) If two clusters have topics of this name, read each "
                    'in a separate query with a name of its own: exactly_once(..., name="...")',
                )
            merged.update(ranges)
        return {tp: merged[tp] for tp in sorted(merged)}


def offset_ranges(
    start: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges between two offset maps of one source, in order.

    A partition that is missing from `start` is new. Its range begins at 0, because the query has
    never read the records that Kafka has already deleted from it. The query no longer reads a
    partition that is missing from `until`.
    """
    return {tp: OffsetRange(start.get(tp, 0), end) for tp, end in sorted(until.items())}
