"""Begin a query from anywhere: a sink's ledger, a group, another checkpoint, a point in time."""
