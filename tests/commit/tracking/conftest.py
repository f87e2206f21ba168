"""A desk on queries and groups that exist only in memory."""

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
    """Desks that are closed again."""
    offices: list[MemoryTracking] = []
    yield offices
    for tracking in offices:
        tracking.committer.close(2.0)
