"""A session, and a database file for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sinks.sqlite.database import store
from tests.spark_session import spark

__all__ = ["spark", "store"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "it's a #1 100% file?.db"
