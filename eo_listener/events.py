"""What happened, as frozen values: logging and metrics are observers of these.

No event holds a secret: a cluster is named by its bootstrap servers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from eo_listener.metadata import CommitMetadata
from eo_listener.offsets import Offsets, Span, TopicPartition


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


class Refusal(Enum):
    """Why offsets are not sent at all."""

    BELOW_COMMITTED = "below what this committer has committed"
    BELOW_GROUP = "below what the group holds"
    BEYOND_LOG_END = "beyond the end of the log"
    WITHHELD_BEFORE = "withheld by the guard in an earlier run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefused(Event):
    """Offsets that are not sent, because the group would no longer tell the truth.

    `offered` and `held` name the same partitions; `held` is what stands in the way: an offset of
    the group, or the end of the log. `writer` is who put the first of them there, None when that
    is unknown or no query of eo_listener.
    """

    cluster: str
    group: str
    refusal: Refusal
    offered: Offsets
    held: Offsets
    writer: CommitMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit(Event):
    """Somebody else commits to the group: a second driver, a zombie, another query, or a tool.

    `found` is what the group held, `ours` what was confirmed to us, for the same partitions.
    `writer` wrote the first of them, None for a program that is not eo_listener; `zombie` is set
    when that is another run of the very query behind `ours`.
    """

    cluster: str
    group: str
    found: Offsets
    ours: Offsets
    writer: CommitMetadata | None
    zombie: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsVanished(Event):
    """The group no longer holds these offsets, which it had confirmed; they are sent again.

    They expired, or a tool deleted them or the group.
    """

    cluster: str
    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreated(Event):
    """A topic was deleted and made anew: its commits end here, for the life of this driver.

    `offsets` were waiting, and belong to the old topic. `was` and `now` are topic ids (KIP-516).
    """

    cluster: str
    group: str
    topic: str
    was: str
    now: str
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterFenced(Event):
    """Another committer has taken this group over, and the broker keeps this one out for good.

    `offsets` are given up: the successor commits for itself. `code` is Kafka's error name.
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


class Breach(Enum):
    """How a batch does not continue where the one before it ended."""

    GAP = "skipped"
    REPEAT = "already reported as done"
    BACKWARD = "moved back"
    VANISHED = "no longer read"
    LOST = "deleted by Kafka before they were read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One partition that breaks the sequence: offsets from `start` up to `until`.

    For BACKWARD, the batch went from `start` back to `until`; for VANISHED both are where the
    partition stood last.
    """

    breach: Breach
    partition: TopicPartition
    start: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardViolation(Event):
    """A batch does not continue where the one before it ended.

    `source` is the index in the progress event's `sources`. `withheld` says that this source is
    no longer committed, until a restart with `guard="warn"`.
    """

    query: str
    run_id: str
    batch_id: int
    source: int
    findings: tuple[Finding, ...]
    withheld: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsMissed(Event):
    """Progress events of these batches never came: nothing is known of what lies between."""

    query: str
    run_id: str
    after_batch: int
    before_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsRepeated(Event):
    """Progress events come more than once: the listener was added more than once.

    The second of each is left out. Told of the first one; once in the life of the listener.
    """

    query: str
    run_id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNoticed(Event):
    """A query whose kind changes what its group says. Said once a run."""

    query: str
    run_id: str
    what: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Spark's own numbers of one batch; None where its event gives none.

    `started` is when the trigger began, by the driver's clock, and `seconds` how long it took.
    `rows` counts what was read from all sources, as often as it was read. `newest` is the greatest
    event time among them, for queries with a watermark. Points in time are seconds since the epoch.
    """

    started: float | None = None
    seconds: float | None = None
    rows: int | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    newest: float | None = None
    watermark: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgressed:
    """Where one Kafka source ended in a batch, and where its logs ended when that was planned.

    `source` is the index in the progress event's `sources`; `cluster` is None when the source is
    not committed. `log_ends` is None when Spark did not look, as for a batch that is repeated.
    """

    source: int
    cluster: str | None
    ends: Offsets
    log_ends: Offsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Event):
    """Spark has made a batch durable. Of batches that follow fast, only the newest is told."""

    query: str
    run_id: str
    batch_id: int
    measures: Measures
    sources: tuple[SourceProgressed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsFed(Event):
    """Which groups a run commits to. Told when it gets another, and when it is over.

    `groups` holds cluster and group of each; `ended` says that nothing more comes of this run.
    """

    query: str
    run_id: str
    groups: frozenset[tuple[str, str]]
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsShared(Event):
    """Several sources feed the same partitions of a group: the least offset counts. Said once.

    `readers` names them: `query, source index`.
    """

    cluster: str
    group: str
    partitions: tuple[TopicPartition, ...]
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchApplied(Event):
    """A sink has the rows of a batch, and its ledger says so.

    `query` is the name that the ledger is kept under, `sink` the sink's label. `rows` and `dead`
    (rows put aside) are None when the answer to COMMIT was lost and the ledger told the rest; with
    a transaction for each partition they lack those of a task that Spark has repeated for that.
    `ranges` are the offsets that the ledger has moved over, where they end is what it holds now;
    `replayed` are partitions that the sink had before, `holes` offsets that are lost and were
    accepted as lost, `skipped` those before a ledger that begins in mid-stream, by
    `on_first="accept"`: they are not in it, lost or not. `seconds` is from the batch's begin to
    here, `attempts` counts its writes.
    """

    query: str
    run_id: str
    batch_id: int
    sink: str
    rows: int | None
    dead: int | None
    ranges: Mapping[TopicPartition, Span]
    replayed: Mapping[TopicPartition, Span]
    holes: Mapping[TopicPartition, Span]
    skipped: Mapping[TopicPartition, Span]
    attempts: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReplayed(Event):
    """A sink had the whole of a batch already, so nothing was written.

    `discarded` says that the batch was computed all the same, for the sake of the query's state.
    """

    query: str
    run_id: str
    batch_id: int
    sink: str
    discarded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLeftBehind(Event):
    """A stateful query goes on in a sink's ledger with a new checkpoint, which has no state.

    What was open under the old one (windows, counts, joins) is lost: the ledger is past its
    records. Told once for each sink, before its first batch of the new checkpoint is written.
    """

    query: str
    run_id: str
    batch_id: int
    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHalted(Event):
    """A batch was broken off by an error, and the query fails with it.

    `query` and `run_id` are empty where the error came before they were known. `sink` is the label
    of the sink that it was meant for, None where it is not about one. `error` is the class of the
    error; of one that is not eo_listener's, `problem` does not hold the text. Whoever reads the
    query's own error knows all of this.
    """

    query: str
    run_id: str
    batch_id: int
    sink: str | None
    error: str
    problem: str
    cause: str | None
    fix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Malfunction(Event):
    """Something in eo_listener itself failed; the query is not touched by it."""

    where: str
    problem: str


Observer = Callable[[Event], None]
"""Gets every event, on the thread that saw it happen; it must return soon."""
