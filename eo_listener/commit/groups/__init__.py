"""Bring each consumer group to the offsets that are tracked for it."""
