"""The events that observers get, as frozen values; the log and the metrics are observers.

No event holds a secret: an event names a cluster by its bootstrap servers only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import UnexpectedRecords
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """The group coordinator confirmed `offsets`.

    `seconds` is the time from the request to its answer. It is 0 if no request was sent, because a
    sink had committed the offsets in the transaction of their batch.
    """

    cluster: str
    group: str
    offsets: Offsets
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """Kafka did not confirm a commit, or a part of it; eo_listener commits the offsets again."""

    cluster: str
    group: str
    errors: Mapping[TopicPartition, str]
    """Kafka's error name for each partition."""
    code: str
    """The error of the partition that is retried first."""
    cause: str
    """The meaning of `code`; once a temporary error has lasted a minute, its likely causes."""
    fix: str
    detail: str | None
    """The error text of the client's connection to Kafka, if there is one."""
    refused: bool
    """Set for an error that lasts until somebody acts (the group has members, a permission is
    missing), not for a temporary error.
    """
    unknown: bool
    """Set if the commit may have succeeded nevertheless."""
    failures: int
    """The number of consecutive failures."""
    retry_in: float
    """Seconds until the next attempt."""


class Refusal(Enum):
    """The reason why offsets were not sent to Kafka at all."""

    BELOW_GROUP = "below what the group holds"
    BEYOND_LOG_END = "beyond the end of the log"
    WITHHELD_BEFORE = "withheld by the guard in an earlier run"
    AFTER_END = "of a run that has ended, and somebody else has committed since"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefused(Event):
    """The committer did not send offsets, because they would give the group a wrong position.

    `offsets` are the refused offsets. `obstacles` has the offset with which each refused offset
    conflicts: a greater offset of the group, or the end of the log. `writer` is the run that
    committed the first of the group's offsets, or None if the run is unknown or another program
    committed the offset. With `BEYOND_LOG_END`, `offsets` may have been committed before the log
    was truncated: the committer does not send them again until the log reaches them.
    """

    cluster: str
    group: str
    refusal: Refusal
    offsets: Offsets
    obstacles: Offsets
    writer: CommitMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit(Event):
    """Somebody else commits to the group: a second driver, a zombie, another query, or a tool.

    `group_offsets` are the group's offsets, `own_offsets` the offsets that Kafka confirmed to this
    driver, for the same partitions. `writer` is the run that committed the first of
    `group_offsets`, or None if another program committed it. `zombie` is set if `writer` is another
    run of the same query.
    """

    cluster: str
    group: str
    group_offsets: Offsets
    own_offsets: Offsets
    writer: CommitMetadata | None
    zombie: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsetsMissing(Event):
    """The group no longer holds offsets that Kafka had confirmed; eo_listener commits them again.

    The offsets expired, or somebody deleted them or the group.
    """

    cluster: str
    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreated(Event):
    """A topic was deleted and recreated; its offsets are not committed for queries that run now.

    For a run that starts later, its offsets are committed. `offsets` were not committed yet, and
    belong to the old topic. `was` and `now` are the old and the new topic id (KIP-516).
    """

    cluster: str
    group: str
    topic: str
    was: str
    now: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterFenced(Event):
    """Another committer has taken over the group, and the broker refuses this one.

    The queries that run now are no longer committed to the group; a run that starts later takes
    the group back. This committer no longer commits `offsets`: the other committer does. `code` is
    Kafka's error name.
    """

    cluster: str
    group: str
    code: str
    cause: str
    fix: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAbandoned(Event):
    """The committer was closed while these offsets were still unconfirmed."""

    cluster: str
    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIgnored(Event):
    """The offsets of a source are not committed. Emitted once for each run, source and problem."""

    query: str
    run_id: str
    source: int | None
    """The index in the progress event's `sources`, or None for the query as a whole."""
    problem: str
    cause: str
    fix: str
    misconfigured: bool
    """Set if a setting is wrong; not set for a source that just has no group."""
    retried: bool = False
    """Set if Spark did not return the source's options. The listener asks again: OptionsRead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsRead(Event):
    """The listener has read options that it could not read, and withdraws its SourceIgnored.

    It commits the offsets of the run. If a source has no group, another SourceIgnored follows.
    """

    query: str
    run_id: str


class ViolationKind(Enum):
    """The way in which a batch does not continue where the previous batch ended."""

    GAP = "skipped"
    REPEAT = "already reported as done"
    BACKWARD = "moved back"
    VANISHED = "no longer read"
    LOST = "deleted by Kafka before they were read"
    NEVER_READ = "never read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A break between two consecutive batches in one partition: the offsets `start` to `until`.

    For BACKWARD, the batch went from `start` back to `until`. For VANISHED, both `start` and
    `until` are the partition's last offset. For NEVER_READ, `start` is the group's offset, and
    `until` the offset at which the query's checkpoint began to read.
    """

    kind: ViolationKind
    partition: TopicPartition
    start: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardViolation(Event):
    """A batch does not continue where the previous batch ended, or where the group stands.

    `source` is the index in the progress event's `sources`. `withheld` is set if the offsets of
    this source are no longer committed, until a restart with `guard="warn"`. If a query began to
    read beyond the group's offsets, this concerns only the partitions in `violations`.
    """

    query: str
    run_id: str
    batch_id: int
    source: int
    violations: tuple[Violation, ...]
    withheld: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEventsMissed(Event):
    """No progress event arrived for the batches between `after_batch` and `before_batch`.

    The guard did not check these batches.
    """

    query: str
    run_id: str
    after_batch: int
    before_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEventsDuplicated(Event):
    """Progress events arrive more than once, because the listener was added more than once.

    Duplicates are ignored. Emitted once in the life of the listener, for the first duplicate.
    """

    query: str
    run_id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryModeDetected(Event):
    """The query's execution mode affects what its group shows. Emitted once for each run.

    `mode` is Spark's name for the mode (asynchronous progress tracking, continuous or real-time
    processing), `effect` what the mode changes.
    """

    query: str
    run_id: str
    mode: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgressed:
    """The end offsets of a Kafka source in a batch, and its log ends when the batch was planned.

    `source` is the index in the progress event's `sources`; `cluster` is None if the source is not
    committed. `log_ends` is None if Spark did not read the log ends, as for a repeated batch.
    """

    source: int
    cluster: str | None
    ends: Offsets
    log_ends: Offsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgressed(Event):
    """Spark has completed a batch and recorded it in the checkpoint.

    For batches that complete in quick succession there is one event, for the newest batch.
    """

    query: str
    run_id: str
    batch_id: int
    metrics: BatchMetrics
    sources: tuple[SourceProgressed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReported(Event):
    """Spark has reported that a query started, ended a batch, or has no data.

    Spark reports the lack of data every `spark.sql.streaming.noDataProgressEventInterval` (10 s). A
    query without reports is in the middle of a batch, or hangs. Not emitted for a query in
    continuous processing, about which Spark reports nothing.
    """

    query: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroupsChanged(Event):
    """A run commits to a further group, or has ended.

    `groups` are all groups of the run, as pairs of cluster and name.
    """

    query: str
    run_id: str
    groups: frozenset[tuple[str, str]]
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsShared(Event):
    """Several sources read the same partitions for one group, so their lowest offset is committed.

    Emitted once. `readers` names the queries, or each source of one query as `query, source index`.
    """

    cluster: str
    group: str
    partitions: tuple[TopicPartition, ...]
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchApplied(Event):
    """A sink has committed the rows of a batch together with their offsets."""

    query: str
    """The query's name in the ledger."""
    run_id: str
    batch_id: int
    sink: str
    """The sink's label."""
    rows: int | None
    """The number of written rows.

    `rows` and `dead_letters` are None if the answer to COMMIT was lost, so that only the ledger
    showed the outcome. With a transaction for each partition, neither number includes the rows of a
    task that Spark repeated because such an answer was lost.
    """
    dead_letters: int | None
    ranges: Mapping[TopicPartition, OffsetRange]
    """The applied offsets; the pseudo-partition BATCHES stands for sources other than Kafka."""
    replayed: Mapping[TopicPartition, OffsetRange]
    """The offsets that the sink already had."""
    gaps: Mapping[TopicPartition, OffsetRange]
    """Lost offsets that `on_gap="accept"` accepted."""
    skipped: Mapping[TopicPartition, OffsetRange]
    """The offsets, lost or not, before the start of a ledger that began in mid-stream because of
    `on_first="accept"`.
    """
    attempts: int
    """The number of attempts to write the batch."""
    seconds: float
    """The time since the start of the batch."""
    unexpected: tuple[UnexpectedRecords, ...] = ()
    """Unexpected records that a sink without transactions found in its target and tolerated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReplayed(Event):
    """A sink already had the whole batch, so nothing was written.

    `discarded` is set if Spark computed the batch nevertheless, to update the query's state.
    """

    query: str
    run_id: str
    batch_id: int
    sink: str
    discarded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStateLost(Event):
    """A stateful query continues in a sink's ledger with a new checkpoint, which has no state.

    The state of the old checkpoint (open windows, counts, joins) is lost, and the records from
    which it was computed are not read again. Emitted once for each sink, before the first batch of
    the new checkpoint.
    """

    query: str
    run_id: str
    batch_id: int
    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFailed(Event):
    """A batch failed in exactly_once, and the query fails with the same error."""

    query: str
    """The query's name. Like `run_id`, it is empty if the batch failed before it was known."""
    run_id: str
    batch_id: int
    sink: str | None
    """The sink's label, or None if the error is not about one sink."""
    error: str
    """The class of the error."""
    problem: str
    """The error's text.

    For an error of the user's code or a library, this is a fixed text, because such an error's text
    may hold data.
    """
    cause: str | None
    fix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalError(Event):
    """A part of eo_listener, `where`, failed unexpectedly; the query is not affected."""

    where: str
    problem: str


Observer = Callable[[Event], None]
"""A function that gets every event, on the thread on which it happened; it must return quickly."""

logger = logging.getLogger("eo_listener")


class Observers:
    """The observers of one listener, follower or sink function, in order. Thread-safe."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def notify(self, event: Event) -> None:
        """Call every observer with `event`, even if one of them raises an error."""
        for observer in self._observers:
            try:
                observer(event)
            except (Exception, SystemExit):  # user code must not fail a commit or batch
                logger.exception("an observer of eo_listener failed on %s", type(event).__name__)
