"""The checkpoint that a command names, and the query's position in it."""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.cli.options import storage_options
from eo_listener.errors import SettingsError
from eo_listener.foreach_batch.starting_offsets.origins import newest_batch, of_batch
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.spark.checkpoint import BatchOffsets, Checkpoint, Location


def open_checkpoint(location: str, storage: Iterable[str] | None) -> Checkpoint:
    """The checkpoint there. Raises SettingsError, StorageError, and CheckpointError."""
    checkpoint = Checkpoint(Location(location, storage_options(storage or ())))
    if not checkpoint.exists():
        raise SettingsError(
            f"no checkpoint exists at {checkpoint.location}",
            cause="the path is wrong, or the query was never started with it",
            fix="Give the query's checkpointLocation; without a scheme it is a local folder",
        )
    return checkpoint


def newest_of(checkpoint: Checkpoint) -> BatchOffsets:
    """Its newest committed batch. Raises as `newest_batch` does."""
    return newest_batch(checkpoint, str(checkpoint.location))


def end_of(checkpoint: Checkpoint, batch: BatchOffsets) -> Origin:
    """Return the end of a batch. Raises SettingsError if it has read nothing from Kafka."""
    where = f"checkpoint {checkpoint.location}, query id {checkpoint.query_id()}"
    origin = of_batch(where, batch)
    if not origin.offsets:
        raise SettingsError(
            f"{origin.what} has no Kafka offsets",
            cause="the query reads other sources only, or has not read its topics yet",
            fix="Run eo-listener checkpoint show CHECKPOINT to see what it holds",
        )
    return origin
