"""Begin a query from anywhere: a sink's ledger, a group, another checkpoint, a point in time."""

from eo_listener.starting.entry import starting_offsets

__all__ = ["starting_offsets"]
