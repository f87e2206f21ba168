"""Follow the checkpoints of queries that nobody may touch, and commit what they made durable."""

from eo_listener.follow.config import FollowedCheckpoint
from eo_listener.follow.follower import Follower
from eo_listener.follow.notices import Notice, NoticeKind
from eo_listener.follow.report import Report

__all__ = ["FollowedCheckpoint", "Follower", "Notice", "NoticeKind", "Report"]
