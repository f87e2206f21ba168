"""A Spark session with everything that eo_listener needs."""

from eo_listener.session.configure import configure

__all__ = ["configure"]
