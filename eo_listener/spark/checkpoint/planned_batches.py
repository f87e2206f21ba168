"""Reads the running batch's plan from a checkpoint, for a query that cannot be asked.

Spark writes `offsets/N` before it begins batch N, and never deletes `offsets/N-1` before batch N is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from eo_listener.errors import SettingsError
from eo_listener.model.counted_sources import BATCHES, CountedSources
from eo_listener.model.planned_batch import PlannedBatch, offset_ranges
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFinding, FileFindingKind
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets

_NO_LOGS = GroupSnapshot(positions={}, starts={}, ends={}, topic_ids={})


class CheckpointPlans:
    """The `PlanReader` that reads the plans from the query's checkpoint, which the user names.

    The plans have `run_id` as the run's id, and no query name, since a checkpoint has neither. A
    query whose checkpoint has a folder `state` counts as stateful. `read_logs` reads the starts and
    ends of Kafka's logs; if it is None, a plan has no starts and ends.
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
        last = self._last(batch_id)
        before = {} if last is None else last.kafka()
        sources: dict[int, dict[TopicPartition, OffsetRange]] = {}
        counted = []
        for index, line in self._lines(batch_id, before):
            if line.offsets is not None:
                start = before.get(line.id)
                sources[index] = offset_ranges(
                    self._first(index, line) if start is None else start, line.offsets
                )
            elif line.text is not None:
                counted.append(index)
        logs = _NO_LOGS
        if self._read_logs is not None:
            logs = self._read_logs([tp for ranges in sources.values() for tp in ranges])
        return PlannedBatch(
            query_id=self._checkpoint.query_id(),
            run_id=self._run_id,
            query=None,
            batch_id=batch_id,
            sources=MappingProxyType(sources),
            counted=self._counted(batch_id, counted),
            stateful=bool(self._checkpoint.folders("state")),
            topic_ids=logs.topic_ids,
            log_starts=logs.starts,
            log_ends=logs.ends,
            has_log_bounds=self._read_logs is not None,
            continued=frozenset(tp for offsets in before.values() for tp in offsets)
            | ({BATCHES} if last is not None and last.non_kafka() else frozenset()),
        )

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Return the first offsets of the sources. Raises StorageError and CheckpointError."""
        last = self._last(plan.batch_id)
        lines = self._lines(plan.batch_id, {} if last is None else last.kafka())
        return {
            tp: offset
            for index, line in lines
            if line.offsets is not None
            for tp, offset in self._first(index, line).items()
        }

    def _lines(
        self, batch_id: int, before: Mapping[str, Offsets]
    ) -> Iterator[tuple[int, SourceOffsets]]:
        """Return the lines of a batch, one for each source, each with the source's index."""
        planned = self._checkpoint.offsets(batch_id)
        return distinct_sources(planned, before, self._checkpoint.folders("sources"))

    def _check_batch(self, batch_id: int) -> None:
        """Raise SettingsError if the batch is committed, or if a later batch is planned.

        Otherwise the sink would take the offsets of a wrong batch for those of its DataFrame.
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

    def _last(self, batch_id: int) -> BatchOffsets | None:
        """Return the batch before `batch_id`, or None if `batch_id` is the first batch."""
        return self._checkpoint.offsets(batch_id - 1) if batch_id else None

    def _counted(self, batch_id: int, indices: Sequence[int]) -> CountedSources | None:
        if not indices:
            return None
        return CountedSources(
            indices=tuple(indices),
            plan_id=self._checkpoint.plan_id(batch_id),
            before=self._checkpoint.plan_id(batch_id - 1) if batch_id else None,
        )

    def _first(self, index: int, line: SourceOffsets) -> Offsets:
        offsets = self._checkpoint.initial(index)
        if offsets is None and not line.id.isdigit():
            offsets = self._checkpoint.initial(line.id)  # a source with a name (Spark 4.2)
        if offsets is None:
            finding = FileFinding(file=f"sources/{index}/0", kind=FileFindingKind.MISSING)
            raise CheckpointError(str(self._checkpoint.location), finding)
        return offsets


def distinct_sources(
    planned: BatchOffsets, before: Mapping[str, Offsets], folders: Collection[str]
) -> Iterator[tuple[int, SourceOffsets]]:
    """Yield the lines of a batch, one for each source, each with the source's index.

    `before` are the offsets of the previous batch, `folders` the names in `sources/`.
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
    """Return one line for each stream; `lines` has one for each use of a stream in the plan."""
    distinct: dict[object, SourceOffsets] = {}
    for line in lines:
        stream = line.id if line.text is None else (line.text, before.get(line.id))
        distinct.setdefault(stream, line)
    return tuple(distinct.values())
