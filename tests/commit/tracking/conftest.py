"""A desk on queries and groups that exist only in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eo_listener.testing import MemoryQueries
from tests.commit.tracking.office import OPTIONS, Office


@pytest.fixture
def queries() -> MemoryQueries:
    return MemoryQueries(OPTIONS)


@pytest.fixture
def office(queries: MemoryQueries) -> Iterator[Office]:
    made = Office(queries)
    yield made
    made.committer.close(2.0)
