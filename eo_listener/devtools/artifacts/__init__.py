"""Fetch Maven artifacts once, prove that they are the right ones, and keep them.

The work is done by the Ivy that ships inside pyspark: neither Maven nor a container is needed.
"""

from eo_listener.devtools.artifacts.ivy import Artifact
from eo_listener.devtools.artifacts.store import CACHE_VARIABLE, cache_folder, fetch, verify

__all__ = ["CACHE_VARIABLE", "Artifact", "cache_folder", "fetch", "verify"]
