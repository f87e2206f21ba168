"""Where a checkpoint stands: its committed batch first, and later its planned one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from eo_listener.audit.positions import CheckpointPositions, lowest
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.offsets import TopicPartition
from eo_listener.spark.checkpoint import (
    BatchOffsets,
    Checkpoint,
    CheckpointError,
    FileFindingKind,
    shown,
)


class CheckpointReading:
    """One checkpoint, read twice. Every method raises StorageError and CheckpointError.

    `options` are those of the storage's driver, and may be secret.
    """

    def __init__(self, location: str, options: Mapping[str, Any]) -> None:
        self._checkpoint = Checkpoint(location, options)
        self.label = shown(location)

    def committed(self) -> CheckpointPositions:
        """What is committed; nothing of what is planned."""
        if not self._checkpoint.exists():
            return CheckpointPositions(label=self.label, exists=False)
        # Before, not after: a live query commits a newer one meanwhile, which is not lost.
        newest = max(self._checkpoint.batches().committed, default=None)
        durable = self._checkpoint.committed()
        offsets = durable.offsets
        if offsets is not None:
            newest = max(offsets.batch, newest or 0)
        damaged = [str(finding) for finding in durable.findings]
        if offsets is not None and offsets.batch < (newest or 0) and not damaged:
            damaged.append(f"offsets/{newest} {FileFindingKind.MISSING.value}")
        return CheckpointPositions(
            label=self.label,
            query_id=self._checkpoint.query_id(),
            committed=newest,
            planned=newest,
            done={} if offsets is None else _ends(offsets),
            ahead={} if offsets is None else _ends(offsets),
            began=dict(self._began(0 if offsets is None else len(offsets.sources))),
            damaged=tuple(damaged),
            counted=offsets is not None and bool(offsets.others()),
        )

    def with_planned(self, found: CheckpointPositions) -> CheckpointPositions:
        """The same with what is planned now, after the batch that was committed then."""
        if not found.exists:
            return found
        newest = max(self._checkpoint.batches().planned, default=None)
        if newest is None or (found.committed is not None and newest <= found.committed):
            return found
        try:
            offsets = self._checkpoint.offsets(newest)
        except CheckpointError as error:
            if error.finding.kind is FileFindingKind.MISSING:  # it was deleted just now
                return found
            return replace(found, planned=newest, damaged=(*found.damaged, str(error.finding)))
        return replace(
            found,
            planned=newest,
            ahead=_ends(offsets),
            began=found.began or dict(self._began(len(offsets.sources))),
            counted=found.counted or bool(offsets.others()),
        )

    def _began(self, sources: int) -> Iterator[tuple[TopicPartition, int]]:
        for source in range(sources):
            yield from (self._checkpoint.initial(source) or {}).items()


def _ends(offsets: BatchOffsets) -> dict[TopicPartition, int]:
    """Where a batch ends; of a topic that is read twice, what both sources have."""
    found = lowest(offsets.kafka().values())
    if offsets.others():
        found[BATCHES] = offsets.batch + 1
    return found
