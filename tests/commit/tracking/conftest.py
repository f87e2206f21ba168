"""A tracker on queries and groups that exist only in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eo_listener.testing import MemoryQueries
from tests.commit.tracking.memory_tracking import OPTIONS, MemoryTracking


@pytest.fixture
def queries() -> MemoryQueries:
    return MemoryQueries(OPTIONS)


@pytest.fixture
def tracking(queries: MemoryQueries) -> Iterator[MemoryTracking]:
    made = MemoryTracking(queries)
    yield made
    made.committer.close(2.0)


@pytest.fixture
def opened() -> Iterator[list[MemoryTracking]]:
    """Trackers that a test opens, closed again at its end."""
    made: list[MemoryTracking] = []
    yield made
    for tracking in made:
        tracking.committer.close(2.0)
