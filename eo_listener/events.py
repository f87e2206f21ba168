"""What happened, as frozen values: logging and metrics are observers of these.

No event holds a secret: a cluster is named by its bootstrap servers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eo_listener.offsets import Offsets, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """The group coordinator confirmed these offsets.

    `seconds` is the time from the request to its answer.
    """

    cluster: str
    group: str
    offsets: Offsets
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A commit, or a part of it, was not confirmed; it is kept and tried again.

    `errors` holds Kafka's error name of each partition, `code` that of the one to be tried again
    first; `cause` and `fix` belong to it. `detail` is what the connection complained of, if it
    did. `refused` tells an answer that will not change by itself (members in the group, a missing
    right) from a passing fault; `unknown` says that the commit may have landed all the same.
    `failures` counts those in a row, `retry_in` is in seconds.
    """

    cluster: str
    group: str
    errors: Mapping[TopicPartition, str]
    code: str
    cause: str
    fix: str
    detail: str | None
    refused: bool
    unknown: bool
    failures: int
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefused(Event):
    """Offsets below what the group was told already; they are not sent.

    `offered` and `held` name the same partitions.
    """

    cluster: str
    group: str
    offered: Offsets
    held: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAbandoned(Event):
    """The committer was closed while these offsets were still unconfirmed."""

    cluster: str
    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIgnored(Event):
    """A source of a query is not committed, and why. Said once a run and source.

    `source` is the index in the progress event's `sources`, or None for the query as a whole.
    `wrong` tells a mistake to mend from a source that nobody asked to commit.
    """

    query: str
    run_id: str
    source: int | None
    problem: str
    cause: str
    fix: str
    wrong: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Malfunction(Event):
    """Something in eo_listener itself failed; the query is not touched by it."""

    where: str
    problem: str


Observer = Callable[[Event], None]
"""Gets every event, on the thread that saw it happen; it must return soon."""
