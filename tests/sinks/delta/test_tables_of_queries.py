"""A Delta table that queries write out of Kafka: gone on with, and counted by source offset."""

from __future__ import annotations

import pytest

from tests.sinks.chapters.lake import TablesOfQueries
from tests.sinks.delta.store import store

__all__ = ["store"]

pytestmark = pytest.mark.spark


class TestTablesOfQueries(TablesOfQueries):
    """By its path."""
