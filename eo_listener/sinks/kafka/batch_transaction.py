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
from eo_listener.sinks.foreign_writer import ledger_changed

ONGOING = "Ongoing"


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """Who may write to a transaction: Kafka refuses whatever comes from an older epoch."""

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
    """What a task says at its end: which attempts it was, and the records it wrote, flushed."""

    partition_id: int
    attempt: int
    stage_attempt: int
    records: Mapping[TopicPartition, int]


class TransactionClient(Protocol):
    """A try to write a batch, with a producer of its own that has the sink's transactional id.

    Its methods raise RetriableSinkError for whatever Kafka answers or does not answer, being
    fenced too; `commit` raises OutcomeUnknownError for anything but Kafka's assent.
    """

    def init(self) -> ProducerEpoch:
        """Take a fresh epoch: fence whoever had the id, and end the transaction it had open.

        Returns once that transaction has all its markers.
        """
        ...

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query` up to what is the ledger's high watermark now.

        Waits until everything below that is decided, and not only as far as the last stable
        offset: Kafka answers EndTxn before a reader sees what was committed. Raises
        SinkLockedError where a transaction stays open for too long.
        """
        ...

    def write_rows(self, producer: ProducerEpoch) -> Sequence[TaskReport]:
        """Write the rows in tasks that join the transaction, one task for each target partition."""
        ...

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        """Write the entry's heads, flushed; returns the ledger's partitions they are in."""
        ...

    def describe(self) -> OpenTransaction | None:
        """Ask the coordinator for the transaction; None where no other client may join it."""
        ...

    def commit(self) -> None:
        """Commit."""
        ...

    def close(self, failed: BaseException | None) -> None:
        """Let go of the producer, and end what it has open where the try has `failed`.

        Not by `abortTransaction`: with its epoch unchanged, whatever of this try is still on its
        way could begin a transaction that nobody ends, or that the next one commits. `init` of
        another producer aborts with a newer epoch. Not where `failed` says that it is another's.
        """
        ...


def write_batch(client: TransactionClient, entry: Entry, *, label: str, tasks: int) -> Applied:
    """Write the batch of `entry` in `tasks` tasks, once.

    The ledger is read after the epoch is taken, so nobody else can move it before the commit: to
    compare it then is the compare-and-set. Raises what `client` raises, and ForeignWriterError.
    """
    try:
        producer = client.init()
        refuse_moved(entry, client.read_ledger(entry.query), label=label)
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


def refuse_moved(entry: Entry, heads: Mapping[TopicPartition, Head], *, label: str) -> None:
    """Raise ForeignWriterError where the ledger is not as the entry has found it."""
    if any(heads.get(tp) != move.found for tp, move in entry.moves.items()):
        raise ledger_changed(label, entry, heads)


def refuse_repeated(reports: Sequence[TaskReport], tasks: int) -> None:
    """Raise RetriableSinkError unless each task has reported, once, and at its first attempt.

    A producer that joins begins at sequence number 0. What a second one writes to a partition in
    the same epoch is acknowledged as a duplicate, and not written.
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
        what = f"{len(ids)} tasks have reported, of {tasks}"
    elif shared:
        what = f"two tasks have written to {few(shared)}"
    else:
        return
    raise RetriableSinkError(
        f"the batch is written again, in a new epoch of its producer: {what}",
        cause="an executor was lost, or speculation started a second copy of a task",
    )


def refuse_changed(
    found: OpenTransaction | None, producer: ProducerEpoch, written: Collection[TopicPartition]
) -> None:
    """Raise RetriableSinkError unless the transaction still holds all that was written in it.

    Any producer that has joined can abort it, and the next request of another one begins a new
    transaction in the same epoch. To commit that would lose what was aborted.
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
