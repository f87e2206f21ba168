"""The steps of one batch on its way into sinks, over protocols alone."""

from eo_listener.batches.batches import Batches, Transform
from eo_listener.batches.frames import Frames
from eo_listener.batches.retry import Retry

__all__ = ["Batches", "Frames", "Retry", "Transform"]
