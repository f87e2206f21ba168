"""Read the checkpoint of a Spark query, wherever it lies; changes nothing."""

from eo_listener.checkpoint.findings import CheckpointError, Finding, FindingKind
from eo_listener.checkpoint.location import Location, has_scheme, shown
from eo_listener.checkpoint.offset_log import BatchOffsets, SourceOffsets
from eo_listener.checkpoint.plans import CheckpointPlans
from eo_listener.checkpoint.reader import Batches, Checkpoint, Durable

__all__ = [
    "BatchOffsets",
    "Batches",
    "Checkpoint",
    "CheckpointError",
    "CheckpointPlans",
    "Durable",
    "Finding",
    "FindingKind",
    "Location",
    "SourceOffsets",
    "has_scheme",
    "shown",
]
