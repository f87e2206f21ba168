"""The checkpoint that a command names, and where it says that the query is."""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.cli.options import storage_options
from eo_listener.foreach_batch.starting_offsets.origins import newest_batch, of_batch
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.errors import SettingsError
from eo_listener.spark.checkpoint import Checkpoint, Location


def open_checkpoint(location: str, storage: Iterable[str] | None) -> Checkpoint:
    """The checkpoint there. Raises SettingsError, StorageError, and CheckpointError."""
    checkpoint = Checkpoint(Location(location, storage_options(storage or ())))
    if not checkpoint.exists():
        raise SettingsError(
            f"there is no checkpoint at {checkpoint.location}",
            cause="the path is another one, or the query was never started with it",
            fix="Give the query's checkpointLocation; without a scheme it is a local folder",
        )
    return checkpoint


def newest_end(checkpoint: Checkpoint) -> Origin:
    """Where its newest committed batch ended. Raises as `newest_batch` does."""
    where = f"checkpoint {checkpoint.location}, query id {checkpoint.query_id()}"
    return of_batch(where, newest_batch(checkpoint, str(checkpoint.location)))
