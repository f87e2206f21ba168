"""What `DataStreamWriter.foreachBatch` is given so that each batch is applied once."""

from eo_listener.foreach_batch.entry import ExactlyOnce, exactly_once
from eo_listener.foreach_batch.transform import Batch

__all__ = ["Batch", "ExactlyOnce", "exactly_once"]
