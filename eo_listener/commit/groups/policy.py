"""The user's decisions about committing: when to retry, and what never to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a partition waits after a failed request, in seconds.

    The wait doubles with each failure in a row: after a passing fault from `first` up to
    `longest`; after a refusal, which lasts until somebody changes something, from `refused_first`
    up to `refused_longest`. Each wait is spread over its upper half, so that many drivers do not
    come back at once. Retries never stop: newer offsets replace older ones, so the backlog stays
    small, and an idle query must still catch up after an outage. `repeat_after` is when a position
    is committed again, after an earlier request of unknown outcome; `persistent_after` is when
    an error that should have passed is reported as one that does not pass by itself.
    `RetryLimits`, for a sink's batch, is another thing: there the query waits, so retries end.
    """

    first: float = 0.1
    longest: float = 15.0
    refused_first: float = 1.0  # a broker that has just started may not know its topics yet
    refused_longest: float = 60.0
    repeat_after: float = 60.0
    persistent_after: float = 60.0  # a coordinator that only moves is back within seconds

    def wait(self, failures: int, *, refused: bool, spread: float) -> float:
        """Return the wait after that many failures in a row; `spread` is from 0 to 1."""
        first, longest = (
            (self.refused_first, self.refused_longest) if refused else (self.first, self.longest)
        )
        doublings = min(failures - 1, 32)
        return min(longest, first * 2.0**doublings) * (0.5 + spread / 2)


class CommitMode(Enum):
    """As whom commits are made; `eo_listener.kafka.group_stores.open_groups` takes the value."""

    SIMPLE = "simple"
    MEMBER = "member"
    TRANSACTIONAL = "transactional"


class OnRewind(Enum):
    """The consequence if a query is to be committed below the group's offsets."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of a commit, and how often they are checked.

    A group is read before its first commit, after every failure, and again when the last
    snapshot is older than `snapshot_max_age` seconds. `accept_marks` takes up what the guard of an
    earlier run had withheld.
    """

    on_rewind: OnRewind = OnRewind.REFUSE
    accept_marks: bool = False
    snapshot_max_age: float = 60.0
