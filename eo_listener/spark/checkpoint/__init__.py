"""Read the checkpoint of a Spark query, wherever it lies; changes nothing."""

from eo_listener.spark.checkpoint.checkpoint import Batches, Checkpoint, Durable
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFinding, FileFindingKind
from eo_listener.spark.checkpoint.location import Location, has_scheme, shown
from eo_listener.spark.checkpoint.log_files import BatchOffsets, SourceOffsets
from eo_listener.spark.checkpoint.planned_batches import CheckpointPlans

__all__ = [
    "BatchOffsets",
    "Batches",
    "Checkpoint",
    "CheckpointError",
    "CheckpointPlans",
    "Durable",
    "FileFinding",
    "FileFindingKind",
    "Location",
    "SourceOffsets",
    "has_scheme",
    "shown",
]
