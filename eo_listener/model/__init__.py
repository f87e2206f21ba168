"""The words that all parts share: errors, events, offsets, protocols. Imports nothing else."""
