"""One reading of a checkpoint, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from eo_listener.model.errors import StorageError
from eo_listener.spark.checkpoint import BatchOffsets, Checkpoint, CheckpointError, FileFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was found in a checkpoint.

    `query_id` is None when there is no checkpoint, or none that can be read; `durable` when no
    batch is done. `unreachable` says why the storage gave no answer.
    """

    query_id: str | None = None
    durable: BatchOffsets | None = None
    findings: tuple[FileFinding, ...] = ()
    unreachable: StorageError | None = None

    @property
    def absent(self) -> bool:
        """Whether the storage answered that nothing is there."""
        return self.query_id is None and not self.findings and self.unreachable is None


def read_once(checkpoint: Checkpoint) -> Reading:
    """Read a checkpoint; takes as long as its storage does."""
    try:
        if not checkpoint.exists():
            return Reading()
        query_id = checkpoint.query_id()
        durable = checkpoint.committed()
        if checkpoint.query_id() != query_id:  # replaced between the two: the next reading is whole
            return Reading(query_id=query_id)
    except StorageError as error:
        return Reading(unreachable=error)
    except CheckpointError as error:
        return Reading(findings=(error.finding,))
    return Reading(query_id=query_id, durable=durable.offsets, findings=durable.findings)
