"""A session, and a database file for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_session import spark

__all__ = ["spark"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that does not exist yet."""
    return tmp_path / "it's a #1 100% file?.db"
