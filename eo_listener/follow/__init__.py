"""Follows checkpoints of queries that you may not change, and commits their durable offsets.

Each checkpoint has its own thread (`CheckpointPoller`), so that a slow storage delays no other
checkpoint. `CheckpointTracker`, which does no I/O, decides what to commit. The committer is the
same as the listener's.

- A damaged file, or a newest batch that is lower than before, counts only if the next read shows
  the same, because a remote listing may be stale.
- The commits carry the run id `follow`.
- The guard compares the durable ends of two reads. So it detects partitions that went back or
  vanished, but no gap.
"""

from eo_listener.follow.config import FollowedCheckpoint
from eo_listener.follow.follower import Follower, Report
from eo_listener.follow.notices import Notice, NoticeKind

__all__ = ["FollowedCheckpoint", "Follower", "Notice", "NoticeKind", "Report"]
