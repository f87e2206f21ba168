"""What all parts share: errors, events, offsets, protocols and formats. Imports nothing else."""
