"""What these tests share."""

from __future__ import annotations

from tests.spark_session import spark

__all__ = ["spark"]  # a fixture, here for the tests of this folder
