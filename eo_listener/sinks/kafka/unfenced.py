"""One batch without transactions: the order of its steps, and what speaks to Kafka for them.

`write_unfenced` has the order and all decisions, and asks an `UnfencedClient` for everything else:
so the models (`tests/model_checking/unfenced`) run it without Kafka.

1. The ledger is read, and compared with what the batch was judged by.
2. If the batch before it is finished, its targets are checked: as many offsets as were written
   means that nothing else was. Otherwise they are read, and unexpected records are named.
3. The targets' ends are made durable in the ledger: the batch is begun. If a batch was begun and is
   not finished, its ends stay, since all of its rows are behind them.
4. A batch that had begun reads its targets from those ends on, and leaves out each existing row, by
   its identity. A record that is not a row of the batch stops it before anything is sent: if
   identities change, each attempt would write all rows again.
5. The rows are written, always in the same order, so that what an earlier try has written is the
   beginning of each partition's rows.
6. The batch is marked as applied, by a single record, which moves its heads.

Nobody is fenced. Records of a replaced driver are detected by step 2 of the next batch, or by step
4.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from eo_listener.errors import (
    ForeignWriterError,
    FormatError,
    KafkaError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    UnfinishedBatchError,
    few,
)
from eo_listener.kafka.producers import IdempotentProducer, TooLargeError
from eo_listener.kafka.target_logs import TargetLog, TargetLogs
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head, Unexpected
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.foreign_writer import foreign_writer, refuse_moved
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.catalog import Target, Targets, topic_recreated
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation
from eo_listener.sinks.kafka.ledger import BatchKey, BatchRecord, Ranges, TargetEnds
from eo_listener.sinks.kafka.ledger_topic import LedgerTopic
from eo_listener.sinks.kafka.row_identity import RowIdentity, writer_of
from eo_listener.sinks.kafka.tail import (
    ACCEPT,
    Findings,
    Tail,
    TailRecord,
    around,
    describe,
    judge_tail,
    records_error,
    size_of,
)
from eo_listener.sinks.kafka.task_rows import Places, RowsTarget, TaskRows
from eo_listener.sinks.newest_row import ORIGIN

Logs = Mapping[str, TargetLog]

_EARLIER = "by an earlier attempt of this batch"

logger = logging.getLogger("eo_listener")


class StoredState(NamedTuple):
    """The ledger's record of a sink and query; `batch` is the last that was begun, if any."""

    heads: Mapping[TopicPartition, Head]
    batch: BatchRecord | None


class UnfencedClient(Protocol):
    """A try to write a batch, with a producer of its own. Its methods raise RetriableSinkError.

    Whatever Kafka answers or does not answer, what was sent may be there, or still come.
    """

    def read_ledger(self, query: str) -> StoredState:
        """Read it to its high watermark of this moment."""
        ...

    def read_targets(self) -> Logs:
        """Ask for each target: its id, and where its logs begin and end."""
        ...

    def write_begun(self, record: BatchRecord) -> None:
        """Make it durable. Raises ForeignWriterError where another driver has begun meanwhile."""
        ...

    def read_records(self, ranges: Ranges) -> Iterable[TailRecord]:
        """The records between these offsets, of no transaction or of any."""
        ...

    def absent(self, there: Places) -> Places:
        """Those of them that no row of the batch has; writes nothing."""
        ...

    def write_rows(self, batch: int, there: Places) -> int:
        """Write the rows that are not `there`, acknowledged; returns how many.

        Those that it meets are taken out of `there`.
        """
        ...

    def write_applied(self, record: BatchRecord) -> None:
        """Make it durable.

        Raises ForeignWriterError where another driver has begun meanwhile, and OutcomeUnknownError
        where Kafka does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfencedHow:
    """The facts of a sink and query that the steps need.

    `writer` is what stands for both in records, `identity` the columns of a row's, `reads` all
    partitions that the query reads. `accept`: what is there twice, or is lost, is named and no
    error.
    """

    label: str
    writer: str
    identity: tuple[str, ...]
    reads: frozenset[TopicPartition]
    accept: bool


def write_unfenced(client: UnfencedClient, entry: Entry, how: UnfencedHow) -> Applied:
    """Write the batch of `entry`, or what is missing of it.

    Raises what `client` raises, ForeignWriterError, TopicRecreatedError, TargetRecordsError,
    UnfinishedBatchError, and SettingsError for too long a tail.
    """
    state = client.read_ledger(entry.query)
    refuse_moved(how.label, entry, state.heads)
    logs = client.read_targets()
    before, found = state.batch, Findings()
    if before is not None and (before.is_finished or before.number > 1):
        refuse_recreated(before, entry, logs, how)
    if before is not None and before.is_finished:
        found = check_finished(client, before, logs, how)
        refuse_found(found, entry, how, f"after batch {before.batch_id}")
    elif before is not None and not is_finished_by(before, entry, logs, how):
        before = replace(before, left={}, size=0)  # given up: this one begins behind its rows
    record = begin(entry, before, logs, how.identity)
    client.write_begun(record)
    tail, size = Tail(rows={}, findings=Findings()), 0
    if before is not None and before.number == record.number:
        logs = client.read_targets()
        tail, size = read_tail(client, record, logs, how)
        refuse_found(tail.findings, entry, how, _EARLIER)
        if tail.rows and not how.accept and not finish(record, 0, 0).left:
            absent = client.absent(dict(tail.rows))
            refuse_found(not_of_batch(absent, state.heads, how), entry, how, _EARLIER)
    there = dict(tail.rows)
    written = client.write_rows(record.number, there)
    refuse_changed(logs, client.read_targets(), how)
    applied = finish(record, size + written, len(tail.rows) + written)
    if not applied.left:  # else they may be of the rest, which the next batch has
        unknown = not_of_batch(there, state.heads, how)
        refuse_found(unknown, entry, how, _EARLIER)
        tail = replace(tail, findings=tail.findings.with_those_of(unknown))
    client.write_applied(applied)
    return Applied(
        rows=written + len(tail.rows) - len(there),
        unexpected=(*found.records(), *tail.findings.records()),
    )


def not_of_batch(there: Places, heads: Mapping[TopicPartition, Head], how: UnfencedHow) -> Findings:
    """Return the part of a tail that belongs neither to the batch nor to an earlier batch that
    finished part of it.
    """
    unknown = Findings()
    for values, (tp, offset) in there.items():
        if how.identity != ORIGIN or not _is_below(values, heads):
            unknown.add(Unexpected.UNKNOWN, tp, OffsetRange(offset, offset + 1))
    return unknown


def begin(
    entry: Entry, before: BatchRecord | None, logs: Logs, identity: tuple[str, ...]
) -> BatchRecord:
    """The record of a batch that begins now, or goes on with what `before` had begun."""
    moves = {tp: move.range for tp, move in entry.moves.items()}
    record = BatchRecord(
        number=1 if before is None else before.number + 1,
        query_id=entry.query_id,
        run_id=entry.run_id,
        batch_id=entry.batch_id,
        identity=identity,
        moves=moves,
        topic_ids={tp.topic: move.topic_id for tp, move in entry.moves.items()},
        left=moves,
        since={name: _ends(log) for name, log in logs.items()},
    )
    if before is None or before.is_finished:
        return record
    since = {name: before.since.get(name, ends) for name, ends in record.since.items()}
    # All that a topic holds which was made since was written since.
    kept = {
        name: ends if _is_same(ends, logs[name]) else TargetEnds(logs[name].id, {})
        for name, ends in since.items()
    }
    left = around((before.left, moves))
    ids = {**before.topic_ids, **record.topic_ids}
    return replace(
        record,
        number=before.number,
        left=left,
        topic_ids={tp.topic: ids[tp.topic] for tp in left},
        since=kept,
    )


def finish(record: BatchRecord, size: int, rows: int | None = None) -> BatchRecord:
    """The record of a batch whose rows are all there: `rows` of the `size` offsets behind its ends.

    Without `rows` it does not say how many they are.
    """
    left = {tp: _rest(one, record.moves.get(tp)) for tp, one in record.left.items()}
    left = {tp: one for tp, one in left.items() if one.start < one.until}
    return replace(record, size=size, rows=rows, left=left)


def check_finished(
    client: UnfencedClient, before: BatchRecord, logs: Logs, how: UnfencedHow
) -> Findings:
    """Return records behind the ends that a finished batch has stored which are not its rows.

    Every row was acknowledged, so each has an offset there. If there are no more offsets than that,
    nobody else has written, unless as many were lost. A topic that was recreated since is a
    different one.
    """
    since = {name: one for name, one in before.since.items() if _is_same(one, logs.get(name))}
    ranges, gone = tail_ranges(since, logs)
    size, is_whole = size_of(ranges), since.keys() == before.since.keys()
    if size == before.size and is_whole and not gone:
        return Findings()
    kept = {tp: _still_there(one, tp, logs) for tp, one in ranges.items()}
    tail = judge(client, kept, how, before.number)
    found = tail.findings
    lost = (before.size or 0) - size if is_whole else 0
    if before.rows is not None and is_whole and kept == ranges:  # none of them has aged
        lost = max(lost, before.rows - len(tail.rows))
    if lost > 0 or gone:
        places = gone or ranges or {tp: OffsetRange(end, end) for tp, end in _places(since)}
        for number, (tp, one) in enumerate(places.items()):  # of each partition nobody knows
            count = 0 if number else max(lost, 0) + size_of(gone)
            found.add(Unexpected.LOST, tp, one, count)
    return found


def read_tail(
    client: UnfencedClient, record: BatchRecord, logs: Logs, how: UnfencedHow
) -> tuple[Tail, int]:
    """Return the records of a batch that had begun, and the number of offsets of its tails."""
    ranges, gone = tail_ranges(record.since, logs)
    kept = {tp: _still_there(one, tp, logs) for tp, one in ranges.items()}
    tail = judge(client, kept, how, record.number)
    # Records that Kafka has deleted may have been rows of the batch: nobody knows which.
    gone.update({tp: OffsetRange(one.start, kept[tp].start) for tp, one in ranges.items()})
    for tp, one in gone.items():
        if one.start < one.until:
            tail.findings.add(Unexpected.LOST, tp, one, one.until - one.start)
    return tail, size_of(ranges)


def tail_ranges(
    since: Mapping[str, TargetEnds], logs: Logs
) -> tuple[dict[TopicPartition, OffsetRange], dict[TopicPartition, OffsetRange]]:
    """Return the offsets behind these ends, and those below them that the logs no longer reach."""
    ranges, gone = {}, {}
    for name, stored in since.items():
        for number, log in logs[name].ranges.items():
            tp, start = TopicPartition(name, number), stored.ends.get(number, 0)
            if log.until < start:
                gone[tp] = OffsetRange(log.until, start)
            elif log.until > start:
                ranges[tp] = OffsetRange(start, log.until)
    return ranges, gone


def judge(client: UnfencedClient, ranges: Ranges, how: UnfencedHow, batch: int) -> Tail:
    """Read these ranges, as far as there is anything in them."""
    wanted = {tp: one for tp, one in ranges.items() if one.start < one.until}
    records = client.read_records(wanted) if wanted else ()
    return judge_tail(records, writer=how.writer, batch=batch)


def refuse_found(found: Findings, entry: Entry, how: UnfencedHow, where: str) -> None:
    """Raise TargetRecordsError for what makes the target wrong; say what else was found.

    It is reported immediately: after the batch it may no longer be detectable.
    """
    wrong = [one for one in found.records() if one.kind is not Unexpected.FOREIGN]
    for one in found.records():
        if one not in wrong or how.accept:
            logger.warning("%s: %s the target has %s", how.label, where, describe(one))
    if not wrong or how.accept:
        return
    raise records_error(wrong, entry, label=how.label, where=where)


def refuse_recreated(before: BatchRecord, entry: Entry, logs: Logs, how: UnfencedHow) -> None:
    """Raise TopicRecreatedError where the rows of earlier batches went to an older topic."""
    both = before.since.keys() & logs.keys()
    for name in sorted(name for name in both if not _is_same(before.since[name], logs[name])):
        if not how.accept:
            raise topic_recreated(name, entry, label=how.label)
        logger.warning("%s: topic %s was recreated: its rows are gone", how.label, name)


def is_finished_by(before: BatchRecord, entry: Entry, logs: Logs, how: UnfencedHow) -> bool:
    """Return True if this batch finishes a batch that was begun; False if that is accepted.

    Raises UnfinishedBatchError if it cannot: its existing rows may be taken for rows of this batch,
    or be left for ever.
    """
    moves = {tp: move.range for tp, move in entry.moves.items()}
    now = {tp.topic: move.topic_id for tp, move in entry.moves.items()}
    ids = {tp.topic: before.topic_ids[tp.topic] for tp in before.left}
    others = [name for name, known in ids.items() if not _alike(known, now.get(name))]
    unread = before.left.keys() - how.reads
    if before.identity != how.identity:
        why = f"its rows are identified by {before.identity}, those of this batch by {how.identity}"
    elif before.since.keys() - logs.keys():
        why = f"its rows also went to {few(sorted(before.since))}, which the sink no longer has"
    elif others:
        why = f"{few(sorted(others))} differs from what it read: it was recreated or planned again"
    elif unread:
        why = f"it read {few(f'{tp}' for tp in sorted(unread))}, which the query no longer reads"
    elif before.identity != ORIGIN and before.left != moves:
        why = (
            f"it has {few((f'{tp} {one}' for tp, one in before.left.items()))}, but this batch "
            f"{few((f'{tp} {one}' for tp, one in moves.items()))}: rows with one identity may "
            "differ"
        )
    else:
        return True
    if how.accept:
        logger.warning("%s: batch %d is not finished: %s", how.label, before.batch_id, why)
        return False
    raise UnfinishedBatchError(
        f"{how.label}: batch {before.batch_id} of query id {before.query_id} was begun and is "
        f"not finished; batch {entry.batch_id} cannot finish it: {why}",
        ranges=before.left,
        cause="the query was started with another checkpoint, or the sink with other arguments",
        fix="Start it as before, until that batch is applied; or accept that its existing "
        f"rows are written again, after them: start once with {ACCEPT}",
    )


def refuse_changed(before: Logs, now: Logs, how: UnfencedHow) -> None:
    """Raise RetriableSinkError if a topic was recreated, or got partitions, in the meantime."""
    for name, log in before.items():
        after = now.get(name)
        if after is None or after.id != log.id or after.ranges.keys() != log.ranges.keys():
            raise RetriableSinkError(
                f"{how.label}: topic {name} was recreated or got more partitions while the batch "
                "was being written",
                cause="somebody changed the topic",
                fix="Nothing to do: missing rows are written again",
            )


def _is_below(values: str, heads: Mapping[TopicPartition, Head]) -> bool:
    topic, partition, offset = json.loads(values)
    head = heads.get(TopicPartition(topic, partition))
    return head is not None and offset < head.range.until


def _ends(log: TargetLog) -> TargetEnds:
    return TargetEnds(log.id, {number: one.until for number, one in log.ranges.items()})


def _places(since: Mapping[str, TargetEnds]) -> Iterator[tuple[TopicPartition, int]]:
    for name, stored in since.items():
        for number, end in stored.ends.items():
            yield TopicPartition(name, number), end


def _is_same(stored: TargetEnds, log: TargetLog | None) -> bool:
    return log is not None and _alike(stored.id, log.id)


def _alike(known: str | None, now: str | None) -> bool:
    """Return True if both may be ids of one topic; None stands for an id that is not known."""
    return known is None or now is None or known == now


def _still_there(one: OffsetRange, tp: TopicPartition, logs: Logs) -> OffsetRange:
    first = logs[tp.topic].ranges[tp.partition].start
    return OffsetRange(min(max(one.start, first), one.until), one.until)


def _rest(left: OffsetRange, moved: OffsetRange | None) -> OffsetRange:
    return left if moved is None else OffsetRange(max(left.start, moved.until), left.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfencedTarget:
    """The target of a batch; `accept` as in `UnfencedHow`."""

    sink: str
    topics: tuple[str, ...]
    access: ConnectionSettings
    explain: Explanation
    accept: bool


@dataclass(kw_only=True)
class UnfencedBatch:
    """The `UnfencedClient` of one try; the query reads `reads`. For one thread; used once."""

    target: UnfencedTarget
    heads: LedgerTopic
    logs: TargetLogs
    rows: TaskRows
    entry: Entry
    reads: frozenset[TopicPartition]
    _producer: IdempotentProducer | None = None  # of the ledger's records
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
        )
        try:
            applied = write_unfenced(self, self.entry, how)
        except KafkaError as error:
            raise explain.translated(error) from error
        finally:
            if self._producer is not None:
                self._producer.leave()
        fault_point("sink.committed")
        return applied

    # The calls of `write_unfenced`, in this order.

    def read_ledger(self, query: str) -> StoredState:
        """Read it, as far as no transaction of an earlier driver is in the way."""
        heads = self.heads.heads(query, self.target.explain, fenced=True)
        self._own().connect(self.heads.name)
        records = self.heads.records
        self._partition = records.partition(self.target.sink, query, self.heads.partitions)
        fault_point("sink.ledger-read")
        return StoredState(heads, records.batch(self.target.sink, query))

    def read_targets(self) -> Mapping[str, TargetLog]:
        """Read each topic. Raises SettingsError if one is missing or compacted."""
        topics = self.logs.topics(self.target.topics)
        missing = sorted(set(self.target.topics) - topics.keys())
        if missing and self._found is not None:
            raise RetriableSinkError(
                f"{self.target.explain.label}: topic {missing[0]} existed when the batch began, "
                "but no longer does",
                cause="it was deleted, and may be about to be recreated",
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
        fault_point("sink.begun")

    def read_records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[TailRecord]:
        """Read these ranges of the targets."""
        try:
            for tp, offset, headers in self.logs.records(ranges):
                yield TailRecord(tp, offset, RowIdentity.of(headers))
        except FormatError as error:
            raise error.as_kind(SinkError) from error
        fault_point("sink.tail-read")

    def absent(self, there: Places) -> Places:
        """Have Spark compute the identities of the batch, and nothing else."""
        return self.rows.absent(there)

    def write_rows(self, batch: int, there: Places) -> int:
        """Send the rows that are not there."""
        assert self._found is not None  # noqa: S101  # the targets are read before
        written = self.rows.write(RowsTarget(self._found, self._writer, batch), there)
        fault_point("sink.rows-written")
        return written

    def write_applied(self, record: BatchRecord) -> None:
        """Write that the batch is applied, unless another driver has begun one."""
        explain = self.target.explain
        found = self._others()
        if found:
            raise ForeignWriterError(
                f"{explain.label}: the rows of batch {self.entry.batch_id} are written, possibly "
                f"twice: {found}",
                ranges={tp: move.range for tp, move in self.entry.moves.items()},
                cause="two drivers of this query are running. Without transactions neither is "
                "fenced",
                fix="Let only one of them run; the next batch names the duplicate rows",
            )
        key = BatchKey(self.target.sink, self.entry.query, record.run_id)
        self._to_ledger(key.encode(), record.encode())
        fault_point("sink.ledger-moved")
        try:
            self._flush_ledger()
        except KafkaError as error:
            raise explain.unknown(error) from error

    @property
    def _writer(self) -> str:
        return writer_of(self.target.sink, self.entry.query)

    def _own(self) -> IdempotentProducer:
        if self._producer is None:
            access = self.target.access
            self._producer = IdempotentProducer({**access.properties(), **access.tuning})
        return self._producer

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
        """Return records in the ledger, other than our own, since it was read; None if there are
        none.
        """
        found = self.heads.count_written(self.entry.query, self._partition)
        if found == self._sent:
            return None
        return (
            f"since the ledger {self.heads.name} was read, {found} records of this query were "
            f"appended to it, {self._sent} of them by this driver"
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
                f"{self.target.explain.label}: topic {topic} is compacted, which "
                "transactions=False does not allow",
                cause="a row that Kafka deleted for a newer one would be written again after a "
                "crash and count as the newest",
                fix="Remove transactions=False, or write to a topic that deletes by age",
            )
