"""One Spark session, one PostgreSQL, and a schema of its own for each test."""

from __future__ import annotations

from tests.postgres_server import dsn, postgres
from tests.sinks.postgres.course import db, store
from tests.spark_session import spark

__all__ = ["db", "dsn", "postgres", "spark", "store"]
