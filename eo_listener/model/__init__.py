"""Shared by all parts: errors, events, offsets, protocols and formats. Imports nothing else."""
