"""Positions with the metadata of a run, and what the metadata of a position says."""

from __future__ import annotations

from typing import Any

from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position


def by(offset: int, *, query: str = "q1", run: str = "r1", batch: int = 0, **more: Any) -> Position:
    """A position with the metadata of a run."""
    metadata = CommitMetadata(name="q", query_id=query, run_id=run, batch_id=batch, **more)
    return Position(offset=offset, metadata=metadata.text())


def metadata_of(position: Position) -> CommitMetadata:
    """The metadata of a position that this library has committed."""
    metadata = CommitMetadata.parse(position.metadata)
    assert metadata is not None
    return metadata
