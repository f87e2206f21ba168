"""One try of a batch, as `batch_transaction.write_batch` asks for it: what speaks to Kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eo_listener.kafka.batch_producer import BatchProducer, Stage
from eo_listener.kafka.logs import Logs
from eo_listener.kafka.record_producer import TooLargeError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import (
    KafkaError,
    SettingsError,
    SinkError,
    UnfinishedBatchError,
)
from eo_listener.model.fault_points import reached
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.model.offsets import Position, TopicPartition
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.batch_transaction import (
    ONGOING,
    OpenTransaction,
    ProducerEpoch,
    TaskReport,
    write_batch,
)
from eo_listener.sinks.kafka.catalog import Target, Targets
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.dead_letters import DeadLetters
from eo_listener.sinks.kafka.errors import Explanation, is_fenced
from eo_listener.sinks.kafka.ledger_topic import LedgerTopic
from eo_listener.sinks.kafka.write_methods import BegunTransaction, RowWriter

_NOT_ASKED: Final = ProducerEpoch(-1, -1)
_END: Final = 5.0  # seconds for the end of what a try has left open

logger = logging.getLogger("eo_listener")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTarget:
    """Where a batch goes; `group` is the consumer group that is moved with it, if any."""

    sink: str
    topics: tuple[str, ...]
    group: str | None
    access: ConnectionSettings
    explain: Explanation


@dataclass(kw_only=True)
class BatchTransaction:
    """The `TransactionClient` of one try. For one thread; used once."""

    target: BatchTarget
    heads: LedgerTopic
    logs: Logs
    writer: RowWriter
    dead_letters: DeadLetters
    entry: Entry
    _producer: BatchProducer | None = None
    _begun: BegunTransaction | None = None
    _found: Targets = field(default_factory=lambda: Targets(topics={}))
    _before: Mapping[TopicPartition, Head] = field(default_factory=dict)
    _records: Sequence[TaskReport] = ()
    _committing: bool = False

    def write(self) -> Applied:
        """Write the batch, once. Raises what a sink's `apply` raises."""
        explain = self.target.explain
        try:
            tasks = self.writer.prepare()
            write_batch(self, self.entry, label=explain.label, tasks=tasks)
        except KafkaError as error:
            if self._committing:
                if not is_fenced(error):
                    raise explain.unknown(error) from error
                if self._is_written(error):
                    return self._applied()
            if self._producer is not None and self._producer.outlived:
                raise explain.outlived() from error
            if is_fenced(error):
                raise explain.fenced(self.entry) from error
            raise explain.translated(error) from error
        finally:
            self.writer.close()
        reached("sink.committed")
        return self._applied()

    # What `write_batch` calls, in this order.

    def init(self) -> ProducerEpoch:
        """Fence whoever had the transactional id, and end what it had open."""
        access = self.target.access
        producer = self._producer = self._new_producer(joined=self.writer.joined)
        producer.take_over(access.timeout, topic=self.heads.name)
        reached("sink.fenced")
        if not self.writer.joined:
            return _NOT_ASKED
        return ProducerEpoch(*producer.identity(access.timeout))

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads, now that nobody else can move them."""
        self._before = self.heads.heads(query, self.target.explain, fenced=True)
        self._refuse_unfinished(query)
        reached("sink.ledger-read")
        return self._before

    def write_rows(self, producer: ProducerEpoch) -> Sequence[TaskReport]:
        """Begin, and have the rows sent."""
        self._found = self._topics()
        targets = self._found.of_rows(self.target.topics)
        known = self.heads.records.targets(self.target.sink, self.entry.query)
        targets.refuse_recreated(known, self.entry, label=self.target.explain.label)
        self._refuse_other_cluster()
        own = self._own()
        own.begin()
        reached("sink.begun")
        self._begun = BegunTransaction(
            transactional_id=self.target.explain.transactional_id,
            epoch=producer,
            producer=own,
            targets=targets,
            dead_letters=self.dead_letters,
        )
        self._records = self.writer.write(self._begun)
        reached("sink.rows-written")
        return self._records

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        """Send the heads, and the offsets of the group."""
        own, sink = self._own(), self.target.sink
        ids = {} if self._begun is None else self._begun.targets.ids
        partition = self.heads.records.partition(sink, entry.query, self.heads.partitions)
        # What the sink left there while it had no transactions would hide the new heads; and some
        # heads are nowhere else.
        unfenced = self.heads.records.batch_keys(sink, entry.query)
        records = list(ledger.records_of(sink, entry, self._before, ids, complete=bool(unfenced)))
        for record in records:
            try:
                own.send(self.heads.name, record.value, key=record.key, partition=partition)
            except TooLargeError as error:
                raise self.target.explain.too_large(len(record.value), error) from error
        for key in unfenced:
            own.send(self.heads.name, None, key=key.encode(), partition=partition)
        own.flush(self.target.access.timeout)
        self.heads.check_written(entry.query, partition, len(records) + len(unfenced))
        positions = _positions(entry)
        if self.target.group is not None and positions:
            own.send_offsets(self.target.group, positions, self.target.access.timeout)
        reached("sink.ledger-moved")
        return {TopicPartition(self.heads.name, partition)}

    def describe(self) -> OpenTransaction | None:
        """Ask for the transaction, and for the topics that its records went to."""
        begun = self._begun
        if begun is None:
            return None
        self._found.refuse_changed(self._topics(), label=self.target.explain.label)
        found = self.writer.describe(begun)
        if found is not None and found.state != ONGOING and self._own().outlived:
            raise self.target.explain.outlived()
        return found

    def commit(self) -> None:
        """Commit."""
        self._committing = True
        self._own().commit(self.target.access.timeout)

    def close(self, failed: BaseException | None) -> None:
        """Let go of the producer, and have another one end what it has open."""
        producer = self._producer
        if producer is None:
            return
        given_up = producer.stage is Stage.OPEN
        producer.leave()
        if given_up and not (isinstance(failed, KafkaError) and is_fenced(failed)):
            self._end()

    def _end(self) -> None:
        producer = self._new_producer(joined=False)
        try:
            producer.take_over(_END, topic=self.heads.name)
        except KafkaError as error:
            logger.warning(
                "what was sent to %s for batch %d is not aborted yet, so that readers under "
                "read_committed wait for the next try, or for at most %g s: %s",
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

    def _own(self) -> BatchProducer:
        if self._producer is None:
            raise RuntimeError("no producer before init")
        return self._producer

    def _applied(self) -> Applied:
        return Applied(
            rows=sum(sum(report.records.values()) for report in self._records),
            dead_letters=self.dead_letters.refusals.count,
        )

    def _is_written(self, error: KafkaError) -> bool:
        """Whether the commit was carried out before the producer was fenced."""
        explain, entry = self.target.explain, self.entry
        try:
            heads = self.heads.heads(entry.query, explain, fenced=False)
        except (KafkaError, SinkError) as unread:
            raise explain.unknown(error) from unread
        return all(heads.get(tp) == entry.head(tp) for tp in entry.moves)

    def _topics(self) -> Targets:
        """All topics that records of a batch go to, as they are now."""
        wanted = [*self.target.topics]
        if self.dead_letters.topic is not None:
            wanted.append(self.dead_letters.topic)
        found = self.logs.topics([*wanted, self.heads.name], self._deadline())
        topics = {
            name: Target(id=one.id, partitions=len(one.partitions)) for name, one in found.items()
        }
        label, servers = self.target.explain.label, self.target.explain.servers
        return Targets.of(topics, wanted, label=label, servers=servers)

    def _refuse_other_cluster(self) -> None:
        """Offsets of another cluster's topics mean nothing in a group of this one."""
        if self.target.group is None:
            return
        wanted = {tp.topic: move.topic_id for tp, move in self.entry.kafka_moves.items()}
        found = self.logs.topics(wanted, self._deadline())
        for topic, known in wanted.items():
            here = found.get(topic)
            if here is None or (known is not None and here.id not in (None, known)):
                raise SettingsError(
                    f"{self.target.explain.label}: group={self.target.group!r} cannot be moved "
                    f"with the batch: topic {topic} of its source is on another cluster",
                    cause="one transaction is of one cluster",
                    fix="Leave group= out, and have the listener commit: option eo.commit.group at "
                    "the reader",
                )

    def _refuse_unfinished(self, query: str) -> None:
        """Raise UnfinishedBatchError where rows of a batch may be there already."""
        batch = self.heads.records.batch(self.target.sink, query)
        if batch is not None and not batch.is_finished:
            raise UnfinishedBatchError(
                f"{self.target.explain.label}: batch {batch.batch_id} of query id "
                f"{batch.query_id} was begun with transactions=False, and is not finished",
                ranges=batch.left,
                cause="its driver died in it; some of its rows may be there",
                fix="Start the query with transactions=False once more, until that batch is "
                "applied",
            )

    def _deadline(self) -> float:
        return time.monotonic() + self.target.access.timeout


def _positions(entry: Entry) -> dict[TopicPartition, Position]:
    """Where the group is to stand; a listener finds out by what is written beside it."""
    metadata = CommitMetadata.of(
        name=entry.query, query_id=entry.query_id, run_id=entry.run_id, batch_id=entry.batch_id
    )
    text = metadata.of_sink().text()
    return {
        tp: Position(offset=move.range.until, metadata=text)
        for tp, move in entry.kafka_moves.items()
    }
