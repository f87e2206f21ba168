"""Commit offsets to consumer groups: off Spark's thread, merged, retried, bounded."""

from eo_listener.committer.board import Retry
from eo_listener.committer.committer import Committer
from eo_listener.committer.router import Router

__all__ = ["Committer", "Retry", "Router"]
