"""Starts a query at the offsets of a ledger, a group, another checkpoint or a point in time."""
