"""One batch in one transaction of Kafka: the order of its steps, and what is compared. No I/O.

What speaks to Kafka is handed in, so the models (`tests/model_checking/kafka_sink`) run this code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from eo_listener.model.errors import RetriableSinkError, few
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.foreign_writer import refuse_moved

ONGOING = "Ongoing"


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """Which producer a transaction belongs to: Kafka refuses requests with an older epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """What the coordinator says of a transactional id; `state` is Kafka's own word."""

    state: str
    producer: ProducerEpoch
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What a task reports when all of its records are acknowledged.

    `attempt` is Spark's attempt number of the task, `stage_attempt` that of its stage, both from 0.
    `records` counts the records by partition.
    """

    partition_id: int
    attempt: int
    stage_attempt: int
    records: Mapping[TopicPartition, int]


class TransactionClient(Protocol):
    """One try to write a batch, with a producer of its own that has the sink's transactional id.

    Its methods raise errors after which nothing was written (KafkaError, RetriableSinkError, ...);
    only `commit` may fail with an unknown outcome.
    """

    def init(self) -> ProducerEpoch:
        """Take a new epoch, which fences older producers of the id and ends their transaction.

        Returns when that transaction has all its markers.
        """
        ...

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`, up to the ledger's high watermark of this moment.

        The last stable offset would not do: Kafka answers EndTxn before readers see what was
        committed. So this waits until all transactions below the high watermark have ended, and
        raises SinkLockedError where one stays open for too long.
        """
        ...

    def write_rows(self, producer: ProducerEpoch) -> Sequence[TaskReport]:
        """Have the rows written, each target partition by one task; one report for each task."""
        ...

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        """Write the entry's heads, and wait for the acknowledgement; return their partitions."""
        ...

    def describe(self) -> OpenTransaction | None:
        """Ask the coordinator for the transaction; None where no other client may join it."""
        ...

    def commit(self) -> None:
        """Commit the transaction."""
        ...

    def close(self, failed: BaseException | None) -> None:
        """Close the producer; where the try has `failed`, end the transaction that it has open.

        Not by `abortTransaction`: that leaves the epoch as it is, so a late request of this try
        could begin a transaction that nobody ends, or that the next one commits. `init` of another
        producer aborts with a newer epoch. Where `failed` says that this producer was fenced,
        nothing is ended: the transaction is another one's.
        """
        ...


def write_batch(client: TransactionClient, entry: Entry, *, label: str, tasks: int) -> Applied:
    """Write the batch of `entry` in `tasks` tasks, once.

    The ledger is read after the new epoch was taken, so nobody else can move it until the commit:
    comparing it at that point makes the commit a compare-and-set. Raises what `client` raises,
    ForeignWriterError, and RetriableSinkError.
    """
    try:
        producer = client.init()
        refuse_moved(label, entry, client.read_ledger(entry.query))
        reports = client.write_rows(producer)
        refuse_repeated(reports, tasks)
        written = {tp for report in reports for tp, count in report.records.items() if count}
        written.update(client.write_ledger(entry))
        refuse_changed(client.describe(), producer, written)
        client.commit()
    except BaseException as error:
        client.close(error)
        raise
    client.close(None)
    return Applied(rows=sum(sum(report.records.values()) for report in reports))


def refuse_repeated(reports: Sequence[TaskReport], tasks: int) -> None:
    """Raise RetriableSinkError unless each task has reported, once, and at its first attempt.

    Each producer that joins begins with sequence number 0. Records that a second one sends to a
    partition in the same epoch are acknowledged as duplicates, and not written. Without a
    transaction they would be written twice. So a later attempt sends nothing.
    """
    repeated = [one for one in reports if one.attempt or one.stage_attempt]
    ids = sorted(one.partition_id for one in reports)
    written = [tp for one in reports for tp, count in one.records.items() if count]
    shared = sorted({tp for tp in written if written.count(tp) > 1})
    if repeated:
        one = repeated[0]
        what = (
            f"task {one.partition_id} ended at attempt {one.attempt} of stage attempt "
            f"{one.stage_attempt}"
        )
    elif ids != list(range(tasks)):
        what = f"{len(ids)} of {tasks} tasks have reported"
    elif shared:
        what = f"two tasks have written to {few(shared)}"
    else:
        return
    raise RetriableSinkError(
        f"the batch is written again, by new producers: {what}",
        cause="an executor was lost, or speculation started a second copy of a task",
    )


def refuse_changed(
    found: OpenTransaction | None, producer: ProducerEpoch, written: Collection[TopicPartition]
) -> None:
    """Raise RetriableSinkError unless the transaction still has all partitions `written` to.

    Any producer that has joined can abort it, and the next request of another producer then begins
    a new transaction in the same epoch. Committing that one would lose what was aborted.
    """
    if found is None:
        return
    missing = sorted(set(written) - found.partitions)
    if found.producer == producer and found.state == ONGOING and not missing:
        return
    raise RetriableSinkError(
        f"the transaction of {producer} is {found.state} of {found.producer}, and lacks "
        f"{few(missing) or 'no partition'}",
        cause="another driver took over, the transaction has outlived its time-out, or a task has "
        "aborted it",
    )
