"""Commit offsets to consumer groups: off Spark's thread, merged, retried, bounded."""

from eo_listener.committer.committer import Committer
from eo_listener.committer.policy import CommitMode, OnRewind, Policy, Retry
from eo_listener.committer.router import Router
from eo_listener.committer.waiting import Groups, Waiting

__all__ = [
    "CommitMode",
    "Committer",
    "Groups",
    "OnRewind",
    "Policy",
    "Retry",
    "Router",
    "Waiting",
]
