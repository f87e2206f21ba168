"""Writes one batch in one Kafka transaction: the order of the steps, and their client.

`write_batch` has the order and the comparisons. It calls a `TransactionClient` for everything else,
so that the models (`tests/model_checking/kafka_sink`) can run it without Kafka.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Final, Protocol

from eo_listener.errors import (
    KafkaError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    UnfinishedBatchError,
    few,
)
from eo_listener.kafka.java_transactions import DescribedTransaction, TaskReport
from eo_listener.kafka.logs import Logs
from eo_listener.kafka.producers import BatchProducer, Stage, TooLargeError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.offsets import Position, TopicPartition
from eo_listener.sinks.dead_letters import DeadLetter, Refusals
from eo_listener.sinks.foreign_writer import refuse_moved
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.catalog import Targets
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import UNREACHABLE, Explanation, is_fenced
from eo_listener.sinks.kafka.ledger_topic import LedgerTopic
from eo_listener.sinks.ledger_sql import now_text

_END: Final = 5.0  # seconds to end the open transaction of an attempt
logger = logging.getLogger("eo_listener")


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """The producer of a transaction, and its epoch: Kafka refuses requests with an older epoch."""

    producer_id: int
    epoch: int


class TransactionClient(Protocol):
    """One attempt to write a batch, with its own producer under the sink's transactional id.

    If a method raises (KafkaError, RetriableSinkError, ...), nothing was written; only `commit` may
    fail with an unknown outcome.
    """

    def init(self) -> ProducerEpoch:
        """Take a new epoch, which fences older producers of the id and ends their transaction.

        Returns once all markers of that transaction are written.
        """

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`, up to the ledger's current high watermark.

        A read up to the last stable offset is not enough: Kafka answers EndTxn before readers see
        the commit. So the method waits until all transactions below the high watermark have ended,
        and raises SinkLockedError if one stays open for too long.
        """

    def write_rows(self, producer: ProducerEpoch) -> Sequence[TaskReport]:
        """Have each target partition written by one task; return one report for each task."""

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        """Write the entry's heads, wait for the acknowledgement, and return their partitions."""

    def describe(self) -> DescribedTransaction | None:
        """Return the coordinator's description of the transaction; None if nobody can join it."""

    def commit(self) -> None:
        """Commit the transaction."""

    def close(self, failed: BaseException | None) -> None:
        """Close the producer; if the attempt has `failed`, end its open transaction.

        The method does not call `abortTransaction`, which would leave the epoch as it is: a late
        request of this attempt could then begin a transaction that nobody ends, or that the next
        attempt commits. Instead, `init` of another producer aborts the transaction with a newer
        epoch. If `failed` shows that this producer was fenced, `close` ends nothing: the
        transaction belongs to another producer.
        """


def write_batch(client: TransactionClient, entry: Entry, *, label: str, tasks: int) -> Applied:
    """Write the batch of `entry` in `tasks` tasks, once.

    The function reads the ledger after it has taken the new epoch, so nobody else can move the
    ledger until the commit: the comparison at that point makes the commit a compare-and-set. Raises
    the errors of `client`, ForeignWriterError, and RetriableSinkError.
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
    """Raise RetriableSinkError unless each task has reported once, from its first attempt.

    Each producer that joins begins with sequence number 0. If a second producer sends records to a
    partition in the same epoch, the broker acknowledges them as duplicates, and does not write
    them. Without a transaction, the broker would write them twice. So a later attempt sends
    nothing.
    """
    repeated = [report for report in reports if report.attempt or report.stage_attempt]
    ids = sorted(report.partition_id for report in reports)
    written = [tp for report in reports for tp, count in report.records.items() if count]
    shared = sorted({tp for tp in written if written.count(tp) > 1})
    if repeated:
        report = repeated[0]
        fault = (
            f"task {report.partition_id} ended at attempt {report.attempt} of stage attempt "
            f"{report.stage_attempt}"
        )
    elif ids != list(range(tasks)):
        fault = f"{len(ids)} of {tasks} tasks have reported"
    elif shared:
        fault = f"two tasks wrote to {few(shared)}"
    else:
        return
    raise RetriableSinkError(
        f"the batch is written again by new producers: {fault}",
        cause="an executor was lost, or speculation started a second copy of a task",
    )


def refuse_changed(
    described: DescribedTransaction | None,
    producer: ProducerEpoch,
    written: Collection[TopicPartition],
) -> None:
    """Raise RetriableSinkError unless the transaction still has all partitions in `written`.

    Any producer that has joined can abort the transaction. The next request of another producer
    then begins a new transaction in the same epoch. A commit of the new transaction would lose the
    aborted records.
    """
    if described is None:
        return
    missing = sorted(set(written) - described.partitions)
    holder = ProducerEpoch(described.producer_id, described.epoch)
    if holder == producer and described.ongoing and not missing:
        return
    raise RetriableSinkError(
        f"the transaction of {producer} is {described.state}, by {holder}, and lacks "
        f"{few(missing) or 'no partition'}",
        cause="another driver took over, the transaction timed out, or a task aborted it",
    )


@dataclass
class DeadLetters:
    """Sends the dead letters of one batch, and counts them; `topic` is None if there is no topic.

    A letter is JSON. Its `row` is null if the letter would be larger than the client may send.
    """

    label: str
    topic: str | None
    entry: Entry
    refusals: Refusals

    def send(self, producer: BatchProducer, letters: Sequence[DeadLetter]) -> None:
        """Send `letters` to the topic, in the transaction of `producer`.

        Raises PoisonRowError for the first letter if there is no topic, and also if there are more
        letters than the sink's max_dead_letters.
        """
        # A letter's origin is taken from columns named topic and partition. In this sink, these
        # columns are the row's target.
        plain = [replace(letter, topic=None, partition=None, offset=None) for letter in letters]
        if plain and self.topic is None:
            raise plain[0].error(self.label)
        self.refusals.add(plain)
        put_at = now_text(datetime.now(timezone.utc))
        for letter in plain:
            payload = {
                "query": self.entry.query,
                "query_id": self.entry.query_id,
                "run_id": self.entry.run_id,
                "batch_id": self.entry.batch_id,
                "reason": letter.reason,
                "row": letter.row,
                "put_at": put_at,
            }
            try:
                producer.send(self.topic or "", _text(payload))
            except TooLargeError:
                producer.send(self.topic or "", _text({**payload, "row": None}))


def _text(letter: dict[str, object]) -> bytes:
    return json.dumps(letter, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunTransaction:
    """The transaction of one attempt to write a batch, begun by the driver's `producer`.

    Other producers join with `epoch`, which is known only if the writer is `joined`. `targets` are
    the topics to which rows may go, as Kafka described them when the attempt began. Only one
    producer of the transaction may send to a partition, because each begins with sequence number 0;
    only the driver's producer sends to the ledger and the dead letters.
    """

    transactional_id: str
    epoch: ProducerEpoch
    producer: BatchProducer
    targets: Targets
    dead_letters: DeadLetters


class RowWriter(Protocol):
    """Sends the rows of one batch in one transaction. Each object serves one attempt.

    `joined` is True if producers other than the driver's send the rows. The methods may
    raise RetriableSinkError, SinkError, PoisonRowError and KafkaError, and raise SettingsError for
    columns that cannot be sent.
    """

    @property
    def joined(self) -> bool: ...

    def prepare(self) -> int:
        """Do the work that needs no open transaction; return how many tasks will write."""

    def write(self, begun: BegunTransaction) -> Sequence[TaskReport]:
        """Send every row; on return, Kafka has acknowledged each row or its dead letter."""

    def describe(self, begun: BegunTransaction, /) -> DescribedTransaction | None:
        """Return the coordinator's description of the transaction; None if no producer joins it."""

    def close(self) -> None:
        """Release the resources of the attempt. Call this once, even after an error."""


_NO_EPOCH: Final = ProducerEpoch(-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTarget:
    """The target of a batch; `group` is the consumer group whose offsets it commits, or None."""

    sink: str
    topics: tuple[str, ...]
    access: ConnectionSettings
    explain: Explanation
    group: str | None = None


@dataclass(kw_only=True)
class BatchTransaction:
    """Makes the Kafka calls of one attempt to write a batch in a transaction.

    It implements `TransactionClient`. Only one thread may use it, and only once.
    """

    target: BatchTarget
    heads: LedgerTopic
    logs: Logs
    writer: RowWriter
    dead_letters: DeadLetters
    entry: Entry
    _producer: BatchProducer | None = None
    _begun: BegunTransaction | None = None
    _targets: Targets = field(default_factory=lambda: Targets(topics={}))
    _before: Mapping[TopicPartition, Head] = field(default_factory=dict)
    _records: Sequence[TaskReport] = ()
    _committing: bool = False

    def write(self) -> Applied:
        """Write the batch. Call it once. Raises the errors of `Sink.apply`."""
        explain = self.target.explain
        try:
            tasks = self.writer.prepare()
            write_batch(self, self.entry, label=explain.label, tasks=tasks)
        except KafkaError as error:
            if self._committing:
                if not is_fenced(error):
                    raise explain.unknown_outcome(error) from error
                if self._is_written(error):
                    return self._applied()
            outlived = self._producer is not None and self._producer.outlived
            if outlived and error.code not in UNREACHABLE:
                raise explain.timeout_error() from error
            if is_fenced(error):
                raise explain.fenced_error(self.entry) from error
            raise explain.translate(error) from error
        finally:
            self.writer.close()
        fault_point("sink.committed")
        return self._applied()

    # The calls of `write_batch`, in this order.

    def init(self) -> ProducerEpoch:
        """Fence earlier producers with the transactional id, and end their open transaction."""
        access = self.target.access
        producer = self._producer = self._new_producer(joined=self.writer.joined)
        producer.take_over(access.timeout, topic=self.heads.name)
        fault_point("sink.fenced")
        if not self.writer.joined:
            return _NO_EPOCH
        return ProducerEpoch(*producer.identity(access.timeout))

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads, now that nobody else can move them."""
        self._before = self.heads.heads(query, self.target.explain, fenced=True)
        self._refuse_unfinished(query)
        fault_point("sink.ledger-read")
        return self._before

    def write_rows(self, producer: ProducerEpoch) -> Sequence[TaskReport]:
        """Begin the transaction, and have the `RowWriter` send the rows."""
        described = self._targets = self._describe_topics()
        targets = Targets(topics={name: described.topics[name] for name in self.target.topics})
        written_to = self.heads.records.targets(self.target.sink, self.entry.query)
        targets.refuse_recreated(written_to, self.entry, label=self.target.explain.label)
        self._refuse_other_cluster()
        begun_by = self._open_producer()
        begun_by.begin()
        fault_point("sink.begun")
        self._begun = BegunTransaction(
            transactional_id=self.target.explain.transactional_id,
            epoch=producer,
            producer=begun_by,
            targets=targets,
            dead_letters=self.dead_letters,
        )
        self._records = self.writer.write(self._begun)
        fault_point("sink.rows-written")
        return self._records

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        """Send the entry's heads, and the offsets of the `group` if the sink has one."""
        producer, sink = self._open_producer(), self.target.sink
        ids = {} if self._begun is None else self._begun.targets.ids
        partition = self.heads.records.partition(sink, entry.query, self.heads.partitions)
        # Records that the sink left in the ledger while it had no transactions would hide the new
        # heads; and some heads are only in those records.
        unfenced = self.heads.records.batch_keys(sink, entry.query)
        records = list(ledger.records_of(sink, entry, self._before, ids, complete=bool(unfenced)))
        for record in records:
            try:
                producer.send(self.heads.name, record.value, key=record.key, partition=partition)
            except TooLargeError as error:
                raise self.target.explain.size_error(len(record.value), error) from error
        for key in unfenced:
            producer.send(self.heads.name, None, key=key.encode(), partition=partition)
        producer.flush(self.target.access.timeout)
        self.heads.check_written(entry.query, partition, len(records) + len(unfenced))
        positions = _positions(entry)
        if self.target.group is not None and positions:
            producer.send_offsets(self.target.group, positions, self.target.access.timeout)
        fault_point("sink.ledger-moved")
        return {TopicPartition(self.heads.name, partition)}

    def describe(self) -> DescribedTransaction | None:
        """Check that no target topic has changed, and return the coordinator's description."""
        begun = self._begun
        if begun is None:
            return None
        self._targets.refuse_changed(self._describe_topics(), label=self.target.explain.label)
        described = self.writer.describe(begun)
        if described is not None and not described.ongoing and self._open_producer().outlived:
            raise self.target.explain.timeout_error()
        return described

    def commit(self) -> None:
        """Commit the transaction."""
        self._committing = True
        self._open_producer().commit(self.target.access.timeout)

    def close(self, failed: BaseException | None) -> None:
        """Close the producer, and have another producer end its open transaction."""
        producer = self._producer
        if producer is None:
            return
        given_up = producer.stage is Stage.OPEN
        producer.leave()
        if given_up and not is_fenced(failed):
            self._end()

    def _end(self) -> None:
        producer = self._new_producer(joined=False)
        try:
            producer.take_over(_END, topic=self.heads.name)
        except KafkaError as error:
            logger.warning(
                "records sent to %s for batch %d are not aborted yet, so that read_committed "
                "consumers wait for the next attempt, or for %g s at most: %s",
                self.target.explain.label,
                self.entry.batch_id,
                self.target.access.transaction_timeout,
                error,
            )
        finally:
            producer.leave()

    def _new_producer(self, *, joined: bool) -> BatchProducer:
        access = self.target.access
        return BatchProducer(
            {**access.properties(), **access.tuning},
            self.target.explain.transactional_id,
            transaction_timeout=access.transaction_timeout,
            joined=joined,
        )

    def _open_producer(self) -> BatchProducer:
        if self._producer is None:
            raise RuntimeError("no producer before init")
        return self._producer

    def _applied(self) -> Applied:
        return Applied(
            rows=sum(sum(report.records.values()) for report in self._records),
            dead_letters=self.dead_letters.refusals.count,
        )

    def _is_written(self, error: KafkaError) -> bool:
        """Return True if the commit was carried out before the producer was fenced."""
        explain, entry = self.target.explain, self.entry
        try:
            heads = self.heads.heads(entry.query, explain, fenced=False)
        except (KafkaError, SinkError) as unread:
            raise explain.unknown_outcome(error) from unread
        return all(heads.get(tp) == entry.head(tp) for tp in entry.moves)

    def _describe_topics(self) -> Targets:
        """Return all topics to which records of a batch go, as they are now."""
        names = [*self.target.topics]
        if self.dead_letters.topic is not None:
            names.append(self.dead_letters.topic)
        described = self.logs.topics([*names, self.heads.name], self._deadline())
        return Targets.require(described, names, self.target.explain)

    def _refuse_other_cluster(self) -> None:
        """Raise SettingsError if a topic of the source is not on the cluster of the group."""
        if self.target.group is None:
            return
        topic_ids = {tp.topic: move.topic_id for tp, move in self.entry.kafka_moves.items()}
        described = self.logs.topics(topic_ids, self._deadline())
        for topic, topic_id in topic_ids.items():
            in_cluster = described.get(topic)
            if in_cluster is None or (
                topic_id is not None and in_cluster.id not in (None, topic_id)
            ):
                raise SettingsError(
                    f"{self.target.explain.label}: cannot commit to group={self.target.group!r} "
                    f"with the batch: topic {topic} of its source is on another cluster",
                    cause="a transaction belongs to one cluster",
                    fix="Remove group=, and let the listener commit: set the option "
                    "eo.commit.group on the reader",
                )

    def _refuse_unfinished(self, query: str) -> None:
        """Raise UnfinishedBatchError if a batch without transactions was begun and not finished."""
        batch = self.heads.records.batch(self.target.sink, query)
        if batch is not None and not batch.is_finished:
            raise UnfinishedBatchError(
                f"{self.target.explain.label}: batch {batch.batch_id} of query id "
                f"{batch.query_id} was begun with transactions=False and is not finished",
                ranges=batch.remaining,
                cause="its driver died while writing it; some of its rows may exist",
                fix="Start the query with transactions=False again, until that batch is applied",
            )

    def _deadline(self) -> float:
        return time.monotonic() + self.target.access.timeout


def _positions(entry: Entry) -> dict[TopicPartition, Position]:
    """Return the group's new positions, with the metadata by which a listener recognises them."""
    metadata = CommitMetadata.for_batch(
        name=entry.query, query_id=entry.query_id, run_id=entry.run_id, batch_id=entry.batch_id
    )
    text = replace(metadata, by_sink=True).text()
    return {
        tp: Position(offset=move.range.until, metadata=text)
        for tp, move in entry.kafka_moves.items()
    }
