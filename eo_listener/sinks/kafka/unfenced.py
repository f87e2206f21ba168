"""One try of a batch, as `unfenced_batch.write_unfenced` asks for it: what speaks to Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eo_listener.kafka.record_producer import IdempotentProducer, TooLargeError
from eo_listener.kafka.target_logs import TargetLog, TargetLogs
from eo_listener.model.errors import (
    ForeignWriterError,
    FormatError,
    KafkaError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.fault_points import reached
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.foreign_writer import foreign_writer
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.batch_records import BatchKey, BatchRecord
from eo_listener.sinks.kafka.catalog import Target, Targets
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation
from eo_listener.sinks.kafka.kept_producer import KeptProducer
from eo_listener.sinks.kafka.ledger_topic import LedgerTopic
from eo_listener.sinks.kafka.row_identity import RowIdentity, writer_of
from eo_listener.sinks.kafka.tail import TailRecord
from eo_listener.sinks.kafka.unfenced_batch import (
    Places,
    StoredState,
    UnfencedHow,
    write_unfenced,
)
from eo_listener.sinks.kafka.unfenced_rows import RowsTarget, UnfencedRows
from eo_listener.sinks.kafka.unfenced_settings import MAX_TAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfencedTarget:
    """Where a batch goes; `accept` and `max_tail` as in `UnfencedHow`."""

    sink: str
    topics: tuple[str, ...]
    access: ConnectionSettings
    explain: Explanation
    accept: bool
    max_tail: int = MAX_TAIL


@dataclass(kw_only=True)
class UnfencedBatch:
    """The `UnfencedClient` of one try; the query reads `reads`. For one thread; used once."""

    target: UnfencedTarget
    heads: LedgerTopic
    logs: TargetLogs
    kept: KeptProducer
    rows: UnfencedRows
    entry: Entry
    reads: frozenset[TopicPartition]
    _producer: IdempotentProducer | None = None
    _found: Targets | None = None
    _partition: int = -1  # of the ledger's topic
    _sent: int = 0  # records of the ledger

    def write(self) -> Applied:
        """Write the batch, once. Raises what a sink's `apply` raises."""
        explain = self.target.explain
        how = UnfencedHow(
            label=explain.label,
            writer=self._writer,
            identity=self.rows.identity,
            reads=self.reads,
            accept=self.target.accept,
            max_tail=self.target.max_tail,
        )
        try:
            self.rows.prepare()
            applied = write_unfenced(self, self.entry, how)
            self._keep_producer()
        except KafkaError as error:
            raise explain.translated(error) from error
        finally:
            self.rows.close()
            if self._producer is not None:
                self._producer.leave()
        reached("sink.committed")
        return applied

    # What `write_unfenced` calls, in this order.

    def read_ledger(self, query: str) -> StoredState:
        """Read it, as far as no transaction of an earlier driver is in the way."""
        heads = self.heads.heads(query, self.target.explain, fenced=True)
        records = self.heads.records
        self._partition = records.partition(self.target.sink, query, self.heads.partitions)
        reached("sink.ledger-read")
        return StoredState(heads, records.batch(self.target.sink, query))

    def read_targets(self) -> Mapping[str, TargetLog]:
        """Ask for each topic. Raises SettingsError where one is missing, or is compacted."""
        topics = self.logs.topics(self.target.topics)
        missing = sorted(set(self.target.topics) - topics.keys())
        if missing and self._found is not None:
            raise RetriableSinkError(
                f"{self.target.explain.label}: topic {missing[0]} was there when the batch began, "
                "and is not any more",
                cause="it was deleted, and may be on its way to be created again",
            )
        before, self._found = self._found, self._targets(topics)
        for name, log in topics.items():
            if before is None or before.topics[name].id != log.id:
                self._refuse_compacted(name)
        return topics

    def write_begun(self, record: BatchRecord) -> None:
        """Write the heads of the batch before it, and that it is begun; delete older runs'."""
        sink, query = self.target.sink, self.entry.query
        key = BatchKey(sink, query, record.run_id)
        self._refuse_others()  # before heads are written, which would be older ones
        for head_record in self._heads_to_write(query):
            self._to_ledger(head_record.key, head_record.value)
        self._to_ledger(key.encode(), record.encode())
        for other in self.heads.records.batch_keys(sink, query):
            if other != key:
                self._to_ledger(other.encode(), None)
        self._flush_ledger()
        self._refuse_others()
        reached("sink.begun")

    def read_records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[TailRecord]:
        """Read these ranges of the targets."""
        try:
            for tp, offset, headers in self.logs.records(ranges):
                yield TailRecord(tp, offset, RowIdentity.of(headers))
        except FormatError as error:
            raise SinkError(error.problem, cause=error.cause, fix=error.fix) from error
        reached("sink.tail-read")

    def absent(self, there: Places) -> Places:
        """Have Spark compute the identities of the batch, and nothing else."""
        return self.rows.absent(there)

    def write_rows(self, batch: int, there: Places) -> int:
        """Send the rows that are not there."""
        assert self._found is not None  # noqa: S101  # the targets are read before
        target = RowsTarget(self._own(), self._found, self._writer, batch)
        written = self.rows.write(target, there)
        reached("sink.rows-written")
        return written

    def write_applied(self, record: BatchRecord) -> None:
        """Write that the batch is applied, unless another driver has begun one."""
        explain = self.target.explain
        found = self._others()
        if found:
            raise ForeignWriterError(
                f"{explain.label}: the rows of batch {self.entry.batch_id} are written, and may be "
                f"there twice: {found}",
                ranges={tp: move.range for tp, move in self.entry.moves.items()},
                cause="two drivers of this query run. Without transactions neither is fenced",
                fix="Let only one of them run; the next batch says which rows are there twice",
            )
        key = BatchKey(self.target.sink, self.entry.query, record.run_id)
        self._to_ledger(key.encode(), record.encode())
        reached("sink.ledger-moved")
        try:
            self._flush_ledger()
        except KafkaError as error:
            raise explain.unknown(error) from error

    @property
    def _writer(self) -> str:
        return writer_of(self.target.sink, self.entry.query)

    def _own(self) -> IdempotentProducer:
        if self._producer is None:
            assert self._found is not None  # noqa: S101  # the targets are read before
            self._producer = self.kept.take(self._found, self._new_producer)
        return self._producer

    def _new_producer(self) -> IdempotentProducer:
        access = self.target.access
        return IdempotentProducer({**access.properties(), **access.tuning})

    def _keep_producer(self) -> None:
        """For the next batch; one of a try that has failed may still have something to send."""
        if self._producer is not None and self._found is not None:
            self.kept.keep(self._found, self._producer)
            self._producer = None

    def _heads_to_write(self, query: str) -> Iterable[ledger.LedgerRecord]:
        records, sink = self.heads.records, self.target.sink
        batch = records.batch(sink, query)
        heads = {} if batch is None else batch.heads()
        written = records.written_heads(sink, query)
        changed = {tp: head for tp, head in heads.items() if written.get(tp) != head}
        since = {} if batch is None else batch.since
        targets = {name: one.id for name, one in since.items() if one.id is not None}
        return ledger.records_of_heads(sink, query, changed, written, targets)

    def _to_ledger(self, key: bytes, value: bytes | None) -> None:
        try:
            self._own().send(self.heads.name, value, key=key, partition=self._partition)
        except TooLargeError as error:
            raise self.target.explain.too_large(len(value or b""), error) from error
        self._sent += 1

    def _flush_ledger(self) -> None:
        self._own().flush(self.target.access.timeout)

    def _refuse_others(self) -> None:
        found = self._others()
        if found:
            raise foreign_writer(self.target.explain.label, self.entry, found, self.entry.moves)

    def _others(self) -> str | None:
        """What is in the ledger, beside our own records, since it was read; None if nothing."""
        found = self.heads.count_written(self.entry.query, self._partition)
        if found == self._sent:
            return None
        return (
            f"since it was read, {found} records of this query were appended to the ledger "
            f"{self.heads.name}, of which {self._sent} by this driver"
        )

    def _targets(self, topics: Mapping[str, TargetLog]) -> Targets:
        found = {
            name: Target(id=log.id, partitions=len(log.ranges)) for name, log in topics.items()
        }
        explain = self.target.explain
        return Targets.of(found, self.target.topics, label=explain.label, servers=explain.servers)

    def _refuse_compacted(self, topic: str) -> None:
        if "compact" in self.logs.policy(topic):
            raise SettingsError(
                f"{self.target.explain.label}: topic {topic} is compacted, which is not possible "
                "with transactions=False",
                cause="a row that Kafka has deleted for a newer one would be written again after a "
                "crash, and count as the newest",
                fix="Leave transactions=False out, or write to a topic that deletes by age",
            )
