"""Follow the checkpoints of queries that nobody may touch, and commit what they made durable.

Each checkpoint has a thread (`CheckpointPoller`), so that a slow storage holds up no other;
`CheckpointTracker` (pure) decides. From there on it is the same committer as the listener's.

- A damaged file, or a step back, counts only when the next read shows it too: a remote listing may
  be stale.
- Its commits carry the run id `follow`.
- Its guard compares the durable ends of two reads. So it sees what went back or vanished, not a
  gap.
"""

from eo_listener.follow.config import FollowedCheckpoint
from eo_listener.follow.follower import Follower, Report
from eo_listener.follow.notices import Notice, NoticeKind

__all__ = ["FollowedCheckpoint", "Follower", "Notice", "NoticeKind", "Report"]
