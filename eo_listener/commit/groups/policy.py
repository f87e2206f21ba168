"""The policies for commits: the waits between retries, and the commits to refuse."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The waits of a partition after failed requests, in seconds.

    The wait doubles with each failure in a row: after a temporary error from `first` up to
    `longest`; after a lasting refusal, from `refused_first` up to `refused_longest`. Each wait is
    shortened at random by up to half, so that many drivers do not retry at once. Retries never
    stop: newer offsets replace older ones, so the backlog stays small, and an idle query must still
    catch up after an outage. `repeat_after` is the time after which a confirmed position is
    committed again if an earlier request had an unknown outcome; `persistent_after` is the time
    after which a temporary error is reported as a lasting one. For a sink's batch, see
    `RetryLimits`: there the query waits, so the retries end.
    """

    first: float = 0.1
    longest: float = 15.0
    refused_first: float = 1.0  # a broker that has just started may not know its topics yet
    refused_longest: float = 60.0
    repeat_after: float = 60.0
    persistent_after: float = 60.0  # a coordinator that only moves answers again within seconds

    def wait(self, failures: int, *, refused: bool, spread: float) -> float:
        """Return the seconds to wait after `failures` failures in a row.

        `spread`, from 0 to 1, varies them between half of the wait and all of it.
        """
        first, longest = (
            (self.refused_first, self.refused_longest) if refused else (self.first, self.longest)
        )
        doublings = min(failures - 1, 32)
        return min(longest, first * 2.0**doublings) * (0.5 + spread / 2)


class CommitMode(Enum):
    """The way to commit to a group, an argument of `eo_listener.kafka.group_stores.open_groups`."""

    SIMPLE = "simple"
    MEMBER = "member"
    TRANSACTIONAL = "transactional"


class OnRewind(Enum):
    """The way to treat a query's offsets that are below the group's offsets."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for accepting a commit, and the longest validity of a snapshot.

    A group is read before its first commit, after every failure, and again if the last snapshot is
    older than `snapshot_max_age` seconds. `accept_marks` allows commits that the guard of an
    earlier run withheld.
    """

    on_rewind: OnRewind = OnRewind.REFUSE
    accept_marks: bool = False
    snapshot_max_age: float = 60.0
