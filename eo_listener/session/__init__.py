"""A Spark session with everything that eo_listener needs."""

from eo_listener.session.builder import configure

__all__ = ["configure"]
