"""One Spark session, one PostgreSQL, and a schema of its own for each test."""

from __future__ import annotations

from tests.postgres_server import dsn, postgres
from tests.spark_session import spark

__all__ = ["dsn", "postgres", "spark"]
