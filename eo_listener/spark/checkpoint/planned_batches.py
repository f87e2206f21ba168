"""Reads the running batch's plan from a checkpoint, for a query that is not in this process.

Spark writes `offsets/N` before it begins batch N, and never deletes `offsets/N-1` before batch N is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from eo_listener.errors import SettingsError
from eo_listener.model.planned_batch import BATCHES, CountedSources, PlannedBatch, offset_ranges
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFinding, FileFindingKind
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets


class CheckpointPlans:
    """The `PlanReader` that reads the plans from the query's checkpoint, which the user names.

    A checkpoint has no run id and no query name: the plans get `run_id`, and no query name. A query
    whose checkpoint has a folder `state` counts as stateful. `read_logs` reads the starts and ends
    of Kafka's logs; if it is None, the plans have no starts and ends.
    """

    def __init__(
        self,
        location: str,
        run_id: str,
        read_logs: Callable[[Collection[TopicPartition]], GroupSnapshot] | None = None,
    ) -> None:
        self._checkpoint = Checkpoint(location)
        self._run_id = run_id
        self._read_logs = read_logs

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:  # noqa: ARG002  # the protocol's
        """Read the plan of a batch.

        Raises SettingsError if the query is writing a different batch, CheckpointError if a file is
        missing or invalid, StorageError, and the errors of `read_logs`.
        """
        self._check_batch(batch_id)
        plan = planned_batch(self._checkpoint, batch_id, self._run_id)
        if self._read_logs is None:
            return plan
        logs = self._read_logs([tp for ranges in plan.sources.values() for tp in ranges])
        return replace(
            plan,
            topic_ids=logs.topic_ids,
            log_starts=logs.starts,
            log_ends=logs.ends,
            has_log_bounds=True,
        )

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Return the offsets at which the sources began. Raises StorageError, CheckpointError."""
        planned, last = _planned(self._checkpoint, plan.batch_id)
        return {
            tp: offset
            for index, line in _lines(self._checkpoint, planned, last)
            if line.offsets is not None
            for tp, offset in _first(self._checkpoint, index, line).items()
        }

    def _check_batch(self, batch_id: int) -> None:
        """Raise SettingsError if the batch is committed, or if a later batch is planned.

        Otherwise the sink would take the offsets of another batch for the offsets of its DataFrame.
        """
        batches = self._checkpoint.batches()
        newest = batches.planned[-1] if batches.planned else batch_id
        if batch_id in batches.committed or batch_id < newest:
            raise SettingsError(
                f"batch {batch_id} is not the batch that the query at "
                f"{self._checkpoint.location} is writing: its newest planned batch is {newest}, "
                f"its last committed batch {max(batches.committed, default='none')}",
                cause="checkpoint= names another query's checkpoint, or the function was called "
                "outside foreachBatch",
                fix="Pass the checkpointLocation of this query to exactly_once(checkpoint=...), "
                "and the function to DataStreamWriter.foreachBatch only",
            )


def planned_batch(checkpoint: Checkpoint, batch_id: int, run_id: str = "") -> PlannedBatch:
    """Return the plan of a batch, without facts about Kafka's logs.

    Raises StorageError, and CheckpointError if a file is missing or invalid.
    """
    planned, last = _planned(checkpoint, batch_id)
    before = {} if last is None else last.kafka()
    lines = list(_lines(checkpoint, planned, last))
    ranges: dict[int, dict[TopicPartition, OffsetRange]] = {}
    for index, line in lines:
        if line.offsets is not None:
            start = before.get(line.id)
            first = _first(checkpoint, index, line) if start is None else start
            ranges[index] = offset_ranges(first, line.offsets)
    counted = _counted(checkpoint, lines, planned, last)
    return _plan(checkpoint, batch_id, run_id, ranges, counted, last)


def following_batch(checkpoint: Checkpoint, last: BatchOffsets) -> PlannedBatch:
    """Return the plan of the batch after `last`, with empty ranges: Spark has not planned it yet.

    Raises StorageError, and CheckpointError if a file is missing or invalid.
    """
    lines = list(_lines(checkpoint, last, None))
    ranges = {
        index: offset_ranges(line.offsets, line.offsets)
        for index, line in lines
        if line.offsets is not None
    }
    counted = _counted(checkpoint, lines, None, last)
    return _plan(checkpoint, last.batch + 1, "", ranges, counted, last)


def _plan(
    checkpoint: Checkpoint,
    batch_id: int,
    run_id: str,
    ranges: Mapping[int, Mapping[TopicPartition, OffsetRange]],
    counted: CountedSources | None,
    last: BatchOffsets | None,
) -> PlannedBatch:
    before = {} if last is None else last.kafka()
    return PlannedBatch(
        query_id=checkpoint.query_id(),
        run_id=run_id,
        query=None,
        batch_id=batch_id,
        sources=MappingProxyType(ranges),
        counted=counted,
        stateful=bool(checkpoint.folders("state")),
        topic_ids={},
        log_starts={},
        log_ends={},
        continued=frozenset(tp for offsets in before.values() for tp in offsets)
        | ({BATCHES} if last is not None and last.non_kafka() else frozenset()),
    )


def _planned(checkpoint: Checkpoint, batch_id: int) -> tuple[BatchOffsets, BatchOffsets | None]:
    """Return the offsets of a batch and of the previous batch, at whose end the batch starts."""
    last = checkpoint.offsets(batch_id - 1) if batch_id else None
    return checkpoint.offsets(batch_id), last


def _lines(
    checkpoint: Checkpoint, planned: BatchOffsets, last: BatchOffsets | None
) -> Iterator[tuple[int, SourceOffsets]]:
    """Return the index and the offsets of each source of a batch, as `distinct_sources` does."""
    before = {} if last is None else last.kafka()
    return distinct_sources(planned, before, checkpoint.folders("sources"))


def _counted(
    checkpoint: Checkpoint,
    lines: Iterable[tuple[int, SourceOffsets]],
    planned: BatchOffsets | None,
    last: BatchOffsets | None,
) -> CountedSources | None:
    """Return the sources other than Kafka that have an offset, or None if there are none.

    `planned` is None if Spark has not planned the batch, which then has no plan id.
    """
    indices = tuple(
        index for index, line in lines if line.offsets is None and line.text is not None
    )
    if not indices:
        return None
    return CountedSources(
        indices=indices,
        plan_id="" if planned is None else checkpoint.plan_id(planned.batch),
        before=None if last is None else checkpoint.plan_id(last.batch),
    )


def _first(checkpoint: Checkpoint, index: int, line: SourceOffsets) -> Offsets:
    """Return the offsets at which a source began."""
    offsets = checkpoint.initial(index)
    if offsets is None and not line.id.isdigit():
        offsets = checkpoint.initial(line.id)  # a source with a name (Spark 4.2)
    if offsets is None:
        finding = FileFinding(file=f"sources/{index}/0", kind=FileFindingKind.MISSING)
        raise CheckpointError(str(checkpoint.location), finding)
    return offsets


def distinct_sources(
    planned: BatchOffsets, before: Mapping[str, Offsets], folders: Collection[str]
) -> Iterator[tuple[int, SourceOffsets]]:
    """Yield the index and the offsets of each source of a batch.

    If the plan uses a source several times, yields the source once. `before` are the offsets of the
    previous batch, `folders` the names in `sources/`.
    """
    lines = planned.sources
    if len(folders) < len(lines):
        lines = _distinct(lines, before)
    for place, line in enumerate(lines):
        # In version 1 the id is the line's place among all lines, in version 2 the source's own id.
        named = planned.version > 1 and line.id.isdigit()
        yield int(line.id) if named else place, line


def _distinct(
    lines: tuple[SourceOffsets, ...], before: Mapping[str, Offsets]
) -> tuple[SourceOffsets, ...]:
    """Return one line for each stream; `lines` has a line for each use of a stream in the plan."""
    distinct: dict[object, SourceOffsets] = {}
    for line in lines:
        stream = line.id if line.text is None else (line.text, before.get(line.id))
        distinct.setdefault(stream, line)
    return tuple(distinct.values())
