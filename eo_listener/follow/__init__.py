"""Follow the checkpoints of queries that nobody may touch, and commit what they made durable."""

from eo_listener.follow.follower import Follower
from eo_listener.follow.notices import Notice, NoticeKind
from eo_listener.follow.report import Report
from eo_listener.follow.targets import FollowedCheckpoint

__all__ = ["FollowedCheckpoint", "Follower", "Notice", "NoticeKind", "Report"]
