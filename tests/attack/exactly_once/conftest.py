"""A PostgreSQL, for the settings that need one."""

from __future__ import annotations

from tests.postgres_server import postgres

__all__ = ["postgres"]  # a fixture
