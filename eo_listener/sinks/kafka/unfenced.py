"""Writes one batch without transactions: the order of the steps, and their client.

`write_unfenced` has the order and all decisions, and calls an `UnfencedClient` for everything else,
so the models (`tests/model_checking/unfenced`) run it without Kafka.

1. Read the ledger, and compare it with the heads by which the batch was judged.
2. If the previous batch is finished, check its targets: if they have as many new offsets as the
   batch wrote rows, nothing else was written. Otherwise read the new records, and report the
   unexpected records.
3. Store the ends of the targets in the ledger: the batch is begun. If a batch was begun and is not
   finished, the ends that it stored stay, because all of its rows are after these ends.
4. If the batch had begun before, read the targets from those ends, and leave out each existing row,
   by its identity. If an existing row is not a row of the batch, the batch stops before anything is
   sent: if identities changed with each attempt, each attempt would write all rows again.
5. Write the rows, always in the same order, so that the rows from an earlier attempt are the first
   of each partition.
6. Mark the batch as applied by a single record, which moves its heads.

The identities of existing rows, never their number, decide which rows a replay writes: other
producers, and a task that the sink no longer waits for, may write between them.

The sink fences nobody. Step 2 of the next batch, or step 4, detects the records of a driver that
was replaced.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from eo_listener.errors import (
    ForeignWriterError,
    KafkaError,
    RetriableSinkError,
    SettingsError,
    TargetRecordsError,
    UnfinishedBatchError,
    few,
)
from eo_listener.kafka.logs import Topic
from eo_listener.kafka.producers import IdempotentProducer, TooLargeError
from eo_listener.kafka.range_reader import TargetLog, TargetLogs
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head, Unexpected, UnexpectedRecords
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.foreign_writer import foreign_writer, refuse_moved
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.catalog import Targets, topic_recreated
from eo_listener.sinks.kafka.ledger import BatchKey, BatchRecord, Ranges, TargetEnds
from eo_listener.sinks.kafka.ledger_topic import LedgerTopic, readable
from eo_listener.sinks.kafka.row_identity import RowIdentity, writer_of
from eo_listener.sinks.kafka.task_rows import Places, RowsTarget, TaskRows
from eo_listener.sinks.kafka.transaction import BatchTarget
from eo_listener.sinks.newest_row import ORIGIN

Logs = Mapping[str, TargetLog]

_EARLIER = "after an earlier attempt of this batch"

logger = logging.getLogger("eo_listener")


class StoredState(NamedTuple):
    """The ledger of a sink and query; `batch` is the last batch that was begun, or None."""

    heads: Mapping[TopicPartition, Head]
    batch: BatchRecord | None


class UnfencedClient(Protocol):
    """One attempt to write a batch, with its own producer. A method may raise RetriableSinkError.

    Even if Kafka does not answer, records that were sent may exist, or may still arrive.
    """

    def read_ledger(self, query: str) -> StoredState:
        """Read the ledger up to its current high watermark."""

    def read_targets(self) -> Logs:
        """Return, for each target topic, its id and where its logs begin and end."""

    def write_begun(self, record: BatchRecord) -> None:
        """Store the record of a begun batch.

        Raises ForeignWriterError if another driver has begun a batch meanwhile.
        """

    def read_records(self, ranges: Ranges) -> Iterable[TailRecord]:
        """Yield the records in `ranges`, including uncommitted records of transactions."""

    def absent(self, existing: Places) -> Places:
        """Return the rows in `existing` that the batch does not have. Writes nothing."""

    def write_rows(self, batch: int, existing: Places) -> int:
        """Write the rows that are not in `existing`; return how many rows Kafka has acknowledged.

        Removes from `existing` the rows that belong to the batch.
        """

    def write_applied(self, record: BatchRecord) -> None:
        """Store the record of an applied batch.

        Raises ForeignWriterError if another driver has begun a batch meanwhile, and
        OutcomeUnknownError if Kafka does not answer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfencedFacts:
    """The facts about a sink and query that the steps of a write need.

    `writer` stands for sink and query in records, `identity` are the columns that identify a row,
    and `reads` are all partitions that the query reads. With `accept`, the steps report duplicate
    and lost rows, but raise no error for them.
    """

    label: str
    writer: str
    identity: tuple[str, ...]
    reads: frozenset[TopicPartition]
    accept: bool


def write_unfenced(client: UnfencedClient, entry: Entry, facts: UnfencedFacts) -> Applied:
    """Write the batch of `entry`, or its missing rows.

    Raises the errors of `client`, ForeignWriterError, TopicRecreatedError, TargetRecordsError,
    UnfinishedBatchError, and SettingsError if the tail has too many rows.
    """
    state = client.read_ledger(entry.query)
    refuse_moved(facts.label, entry, state.heads)
    logs = client.read_targets()
    before, findings = state.batch, Findings()
    if before is not None and (before.is_finished or before.number > 1):
        refuse_recreated(before, entry, logs, facts)
    if before is not None and before.is_finished:
        findings = check_finished(client, before, logs, facts)
        refuse_unexpected(findings, entry, facts, f"after batch {before.batch_id}")
    elif before is not None and not is_finished_by(before, entry, logs, facts):
        before = replace(before, remaining={}, size=0)  # this batch begins after its rows
    record = begin(entry, before, logs, facts.identity)
    client.write_begun(record)
    tail, size = Tail(rows={}, findings=Findings()), 0
    if before is not None and before.number == record.number:
        logs = client.read_targets()
        tail, size = read_tail(client, record, logs, facts)
        refuse_unexpected(tail.findings, entry, facts, _EARLIER)
        if tail.rows and not facts.accept and not finish(record, 0, 0).remaining:
            absent = client.absent(dict(tail.rows))
            refuse_unexpected(not_of_batch(absent, state.heads, facts), entry, facts, _EARLIER)
    existing = dict(tail.rows)
    written, unknown = client.write_rows(record.number, existing), Findings()
    refuse_changed(logs, client.read_targets(), facts)
    applied = finish(record, size + written, len(tail.rows) + written)
    if not applied.remaining:  # otherwise the next batch may have these rows
        unknown = not_of_batch(existing, state.heads, facts)
        refuse_unexpected(unknown, entry, facts, _EARLIER)
    client.write_applied(applied)
    return Applied(
        rows=written + len(tail.rows) - len(existing),
        unexpected=(*findings.records(), *tail.findings.records(), *unknown.records()),
    )


def not_of_batch(
    existing: Places, heads: Mapping[TopicPartition, Head], facts: UnfencedFacts
) -> Findings:
    """Return, as findings, the `existing` rows that belong neither to this nor to an earlier batch.

    If the source's offsets identify rows, rows below `heads` belong to an earlier batch, which
    finished a part of this batch.
    """
    unknown = Findings()
    for values, (tp, offset) in existing.items():
        if facts.identity != ORIGIN or not _is_below(values, heads):
            unknown.add(Unexpected.UNKNOWN, tp, OffsetRange(offset, offset + 1))
    return unknown


def begin(
    entry: Entry, before: BatchRecord | None, logs: Logs, identity: tuple[str, ...]
) -> BatchRecord:
    """Return the record of a batch that begins now, or continues the unfinished batch `before`."""
    moves = {tp: move.range for tp, move in entry.moves.items()}
    record = BatchRecord(
        number=1 if before is None else before.number + 1,
        query_id=entry.query_id,
        run_id=entry.run_id,
        batch_id=entry.batch_id,
        identity=identity,
        moves=moves,
        topic_ids={tp.topic: move.topic_id for tp, move in entry.moves.items()},
        remaining=moves,
        since={
            name: TargetEnds(log.id, {number: until for number, (_, until) in log.ranges.items()})
            for name, log in logs.items()
        },
    )
    if before is None or before.is_finished:
        return record
    since = {name: before.since.get(name, ends) for name, ends in record.since.items()}
    # If a topic was created since then, all of its records were written since then.
    since = {
        name: ends if _is_same(ends, logs[name]) else TargetEnds(logs[name].id, {})
        for name, ends in since.items()
    }
    remaining = enclosing((before.remaining, moves))
    ids = {**before.topic_ids, **record.topic_ids}
    return replace(
        record,
        number=before.number,
        remaining=remaining,
        topic_ids={tp.topic: ids[tp.topic] for tp in remaining},
        since=since,
    )


def finish(record: BatchRecord, size: int, rows: int | None = None) -> BatchRecord:
    """Return the record of a batch whose rows all exist.

    After the batch's stored ends, the logs have `size` offsets, of which `rows` belong to rows of
    the batch. If `rows` is None, their number is unknown.
    """
    remaining = {
        tp: _rest(offsets, record.moves.get(tp)) for tp, offsets in record.remaining.items()
    }
    remaining = {tp: offsets for tp, offsets in remaining.items() if offsets.start < offsets.until}
    return replace(record, size=size, rows=rows, remaining=remaining)


def check_finished(
    client: UnfencedClient, before: BatchRecord, logs: Logs, facts: UnfencedFacts
) -> Findings:
    """Return the unexpected records after the ends of a finished batch, and its lost records.

    Kafka has acknowledged every row, so each row has an offset after these ends. If there are no
    more offsets than rows, no other program has written to the target, unless exactly as many rows
    were lost. A topic that was recreated since then counts as a different topic.
    """
    since = {name: ends for name, ends in before.since.items() if _is_same(ends, logs.get(name))}
    ranges, gone = tail_ranges(since, logs)
    size, is_whole = size_of(ranges), since.keys() == before.since.keys()
    if size == before.size and is_whole and not gone:
        return Findings()
    readable_ranges = _readable(ranges, logs)
    tail = judge(client, readable_ranges, facts, before.number)
    findings = tail.findings
    lost = (before.size or 0) - size if is_whole else 0
    if before.rows is not None and is_whole and readable_ranges == ranges:  # Kafka has deleted none
        lost = max(lost, before.rows - len(tail.rows))
    if lost > 0 or gone:
        places = (
            gone
            or ranges
            or {
                TopicPartition(name, number): OffsetRange(end, end)
                for name, stored in since.items()
                for number, end in stored.ends.items()
            }
        )
        for number, (tp, offsets) in enumerate(places.items()):  # the count of each is unknown
            count = 0 if number else max(lost, 0) + size_of(gone)
            findings.add(Unexpected.LOST, tp, offsets, count)
    return findings


def read_tail(
    client: UnfencedClient, record: BatchRecord, logs: Logs, facts: UnfencedFacts
) -> tuple[Tail, int]:
    """Return the tail of a batch that had begun, and how many offsets the tail has."""
    ranges, gone = tail_ranges(record.since, logs)
    readable_ranges = _readable(ranges, logs)
    tail = judge(client, readable_ranges, facts, record.number)
    # Records that Kafka has deleted may have been rows of the batch: nobody knows which.
    for tp, offsets in readable_ranges.items():
        gone[tp] = OffsetRange(ranges[tp].start, offsets.start)
    for tp, offsets in gone.items():
        if offsets.start < offsets.until:
            tail.findings.add(Unexpected.LOST, tp, offsets, offsets.until - offsets.start)
    return tail, size_of(ranges)


def tail_ranges(
    since: Mapping[str, TargetEnds], logs: Logs
) -> tuple[dict[TopicPartition, OffsetRange], dict[TopicPartition, OffsetRange]]:
    """Return the offsets after the ends in `since`, and earlier offsets that the logs have lost."""
    ranges, gone = {}, {}
    for name, stored in since.items():
        for number, log in logs[name].ranges.items():
            tp, start = TopicPartition(name, number), stored.ends.get(number, 0)
            if log.until < start:
                gone[tp] = OffsetRange(log.until, start)
            elif log.until > start:
                ranges[tp] = OffsetRange(start, log.until)
    return ranges, gone


def judge(client: UnfencedClient, ranges: Ranges, facts: UnfencedFacts, batch: int) -> Tail:
    """Read the records in `ranges`, and judge them as the tail of this batch."""
    nonempty = {tp: offsets for tp, offsets in ranges.items() if offsets.start < offsets.until}
    records = client.read_records(nonempty) if nonempty else ()
    return judge_tail(records, writer=facts.writer, batch=batch)


def refuse_unexpected(findings: Findings, entry: Entry, facts: UnfencedFacts, where: str) -> None:
    """Raise TargetRecordsError for unexpected or lost rows; log records of other producers.

    The function reports all findings at once, since after the batch they may no longer be
    detectable.
    """
    wrong = [records for records in findings.records() if records.kind is not Unexpected.FOREIGN]
    for records in findings.records():
        if records not in wrong or facts.accept:
            logger.warning("%s: %s, the target has %s", facts.label, where, describe(records))
    if not wrong or facts.accept:
        return
    raise records_error(wrong, entry, label=facts.label, where=where)


def refuse_recreated(before: BatchRecord, entry: Entry, logs: Logs, facts: UnfencedFacts) -> None:
    """Raise TopicRecreatedError if earlier batches wrote to an older topic of the same name."""
    both = before.since.keys() & logs.keys()
    for name in sorted(name for name in both if not _is_same(before.since[name], logs[name])):
        if not facts.accept:
            raise topic_recreated(name, entry, label=facts.label)
        logger.warning("%s: topic %s was recreated: its rows are gone", facts.label, name)


def is_finished_by(before: BatchRecord, entry: Entry, logs: Logs, facts: UnfencedFacts) -> bool:
    """Return True if this batch can finish the unfinished batch `before`.

    If it cannot, the function returns False if `facts.accept` is set, and otherwise raises
    UnfinishedBatchError: this batch might take the existing rows of `before` for its own, or leave
    them in the target forever.
    """
    moves = {tp: move.range for tp, move in entry.moves.items()}
    topic_ids = {tp.topic: move.topic_id for tp, move in entry.moves.items()}
    known_ids = {tp.topic: before.topic_ids[tp.topic] for tp in before.remaining}
    changed = sorted(
        name for name, known_id in known_ids.items() if not _alike(known_id, topic_ids.get(name))
    )
    unread = before.remaining.keys() - facts.reads
    if before.identity != facts.identity:
        reason = (
            f"its rows are identified by {before.identity}, those of this batch by {facts.identity}"
        )
    elif before.since.keys() - logs.keys():
        reason = f"its rows also went to {few(sorted(before.since))}, which the sink no longer has"
    elif changed:
        reason = f"topic {few(changed)} has a new id: it was recreated or planned again"
    elif unread:
        reason = f"it read {few(f'{tp}' for tp in sorted(unread))}, which the query no longer reads"
    elif before.identity != ORIGIN and before.remaining != moves:
        begun, planned = (
            few(f"{tp} {offsets}" for tp, offsets in ranges.items())
            for ranges in (before.remaining, moves)
        )
        reason = f"it has {begun}, but this batch {planned}: rows with one identity may differ"
    else:
        return True
    if facts.accept:
        logger.warning("%s: batch %d is not finished: %s", facts.label, before.batch_id, reason)
        return False
    raise UnfinishedBatchError(
        f"{facts.label}: batch {before.batch_id} of query id {before.query_id} was begun and is "
        f"not finished; batch {entry.batch_id} cannot finish it: {reason}",
        ranges=before.remaining,
        cause="the query was started with another checkpoint, or the sink with other arguments",
        fix="(1) Start the query with its earlier checkpoint, and the sink with its earlier "
        "arguments, until that batch is applied; or (2) accept duplicates of its existing rows: "
        f"start once with {ACCEPT}, and the batch is written again after them",
    )


def refuse_changed(before: Logs, now: Logs, facts: UnfencedFacts) -> None:
    """Raise RetriableSinkError if a topic was recreated, or got more partitions, meanwhile."""
    for name, log in before.items():
        after = now.get(name)
        if after is None or after.id != log.id or after.ranges.keys() != log.ranges.keys():
            raise RetriableSinkError(
                f"{facts.label}: topic {name} was recreated or got more partitions while the batch "
                "was being written",
                cause="somebody changed the topic",
                fix="Nothing to do: missing rows are written again",
            )


def _is_below(values: str, heads: Mapping[TopicPartition, Head]) -> bool:
    topic, partition, offset = json.loads(values)
    head = heads.get(TopicPartition(topic, partition))
    return head is not None and offset < head.range.until


def _is_same(stored: TargetEnds, log: TargetLog | None) -> bool:
    return log is not None and _alike(stored.id, log.id)


def _alike(stored_id: str | None, current_id: str | None) -> bool:
    """Return True if both may be ids of the same topic; an unknown id is None."""
    return stored_id is None or current_id is None or stored_id == current_id


def _readable(ranges: Ranges, logs: Logs) -> dict[TopicPartition, OffsetRange]:
    """Return the part of each range that Kafka has not yet deleted."""
    readable_ranges = {}
    for tp, (start, until) in ranges.items():
        first = logs[tp.topic].ranges[tp.partition].start
        readable_ranges[tp] = OffsetRange(min(max(start, first), until), until)
    return readable_ranges


def _rest(begun: OffsetRange, moved: OffsetRange | None) -> OffsetRange:
    return begun if moved is None else OffsetRange(max(begun.start, moved.until), begun.until)


MAX_TAIL: Final = 5_000_000
"""The most rows whose identities the driver keeps, at about 320 bytes each: 1.6 GB."""
ACCEPT: Final = 'on_repeated="accept"'


class TailRecord(NamedTuple):
    """A record and its row's identity, which is None if no sink of eo_listener wrote the record."""

    partition: TopicPartition
    offset: int
    identity: RowIdentity | None


@dataclass(slots=True)
class Findings:
    """Collects the unexpected records of a target."""

    _counts: Counter[Unexpected] = field(default_factory=Counter)
    _ranges: dict[Unexpected, dict[TopicPartition, OffsetRange]] = field(default_factory=dict)

    def add(
        self, kind: Unexpected, tp: TopicPartition, offsets: OffsetRange, count: int = 1
    ) -> None:
        """Add `count` records of this `kind` within `offsets`."""
        self._counts[kind] += count
        ranges = self._ranges.setdefault(kind, {})
        before = ranges.get(tp, offsets)
        ranges[tp] = OffsetRange(min(before.start, offsets.start), max(before.until, offsets.until))

    def records(self) -> tuple[UnexpectedRecords, ...]:
        """Return the unexpected records, by kind."""
        return tuple(
            UnexpectedRecords(kind, self._counts[kind], dict(ranges))
            for kind, ranges in self._ranges.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The records that were read: the places of the batch's rows, and findings about the rest.

    `rows` has the partition and offset of each row, by the row's identity.
    """

    rows: Mapping[str, tuple[TopicPartition, int]]
    findings: Findings


def judge_tail(records: Iterable[TailRecord], *, writer: str, batch: int) -> Tail:
    """Split `records` into the rows that `writer` sent in batch number `batch`, and all others.

    Raises SettingsError if there are more than MAX_TAIL rows of the batch.
    """
    rows: dict[str, tuple[TopicPartition, int]] = {}
    findings = Findings()
    for tp, offset, identity in records:
        here = OffsetRange(offset, offset + 1)  # the range of this record
        if identity is None or identity.writer != writer:
            findings.add(Unexpected.FOREIGN, tp, here)
        elif identity.batch != batch:
            findings.add(Unexpected.LATE, tp, here)
        elif identity.values in rows:
            findings.add(Unexpected.REPEATED, tp, here)
        elif len(rows) == MAX_TAIL:
            raise _too_many()
        else:
            rows[identity.values] = tp, offset
    return Tail(rows=rows, findings=findings)


def _too_many() -> SettingsError:
    return SettingsError(
        f"the target holds more than {MAX_TAIL:,} rows of one batch, which would have to be read "
        "back",
        cause="the batch was interrupted, or others wrote at the same time; the driver would "
        "have to keep the identity of each of its rows in memory",
        fix='Give the sink another name, KafkaSink(..., name="..."), and start once with '
        'exactly_once(..., on_first="accept"): an interrupted batch is then written '
        "whole, after the rows that it has already written. Use smaller batches: "
        "maxOffsetsPerTrigger on the reader",
    )


def size_of(ranges: Mapping[TopicPartition, OffsetRange]) -> int:
    """Return the number of offsets in `ranges`."""
    return sum(offsets.until - offsets.start for offsets in ranges.values())


def records_error(
    wrong: Sequence[UnexpectedRecords], entry: Entry, *, label: str, where: str
) -> TargetRecordsError:
    """Return the error for unexpected or missing records; `where` is a phrase: "after batch 5"."""
    cause, fix = _reason({records.kind for records in wrong})
    return TargetRecordsError(
        f"{label}: batch {entry.batch_id} is not written: {where}, the target has "
        f"{'; '.join(map(describe, wrong))}",
        ranges=enclosing(records.ranges for records in wrong),
        cause=cause,
        fix=fix,
    )


def describe(records: UnexpectedRecords) -> str:
    """Return the number, kind and place of `records` as text."""
    places = few(f"{tp} {offsets}" for tp, offsets in sorted(records.ranges.items()))
    return f"{records.count} {records.kind.value} (within {places})"


def enclosing(
    mappings: Iterable[Mapping[TopicPartition, OffsetRange]],
) -> dict[TopicPartition, OffsetRange]:
    """Return for each partition the smallest range that contains all its ranges in `mappings`."""
    hulls: dict[TopicPartition, OffsetRange] = {}
    for ranges in mappings:
        for tp, offsets in ranges.items():
            hull = hulls.get(tp, offsets)
            hulls[tp] = OffsetRange(min(hull.start, offsets.start), max(hull.until, offsets.until))
    return hulls


def _reason(kinds: Collection[Unexpected]) -> tuple[str, str]:
    """Return the cause and the fix for these kinds of unexpected records."""
    if {*kinds} == {Unexpected.UNKNOWN}:
        cause = (
            "the identity of a row changes each time it is computed (the time, a random value), "
            "or the transform has changed since the batch began"
        )
        fix = (
            "Let the transform compute the same identities each time; then start once with "
            f"{ACCEPT}: existing rows stay, and the missing rows of the batch are written after "
            "them"
        )
        return cause, fix
    if Unexpected.LOST in kinds:
        cause = (
            "a broker lost acknowledged records, Kafka deleted records before they were read "
            "back, or somebody truncated the log"
        )
    else:
        cause = (
            "another driver of this query wrote at the same time, or records of a driver or a "
            "task arrived late. Without transactions no writer can be fenced"
        )
    return cause, (
        "Make sure that a single driver runs, and correct the target, using the header "
        f"eo-identity; then start once with {ACCEPT}"
    )


@dataclass(kw_only=True)
class UnfencedBatch:
    """Makes the Kafka calls of one attempt to write a batch without transactions.

    It implements `UnfencedClient`. Only one thread may use it, and only once.
    """

    target: BatchTarget
    heads: LedgerTopic
    logs: TargetLogs
    rows: TaskRows
    entry: Entry
    #: As in `UnfencedFacts`.
    reads: frozenset[TopicPartition]
    accept: bool
    #: The producer of the ledger's records.
    _producer: IdempotentProducer | None = None
    _targets: Targets | None = None
    #: The partition of the ledger's topic.
    _partition: int = -1
    #: The number of records sent to the ledger.
    _sent: int = 0

    def write(self) -> Applied:
        """Write the batch, once. Raises the errors of `Sink.apply`."""
        explain = self.target.explain
        facts = UnfencedFacts(
            label=explain.label,
            writer=self._writer,
            identity=self.rows.identity,
            reads=self.reads,
            accept=self.accept,
        )
        try:
            applied = write_unfenced(self, self.entry, facts)
        except KafkaError as error:
            raise explain.translate(error) from error
        finally:
            if self._producer is not None:
                self._producer.leave()
        fault_point("sink.committed")
        return applied

    # The calls of `write_unfenced`, in this order.

    def read_ledger(self, query: str) -> StoredState:
        """Read the ledger, after waiting for open transactions of an earlier driver."""
        heads = self.heads.heads(query, self.target.explain, fenced=True)
        self._open_producer().connect(self.heads.name)
        records = self.heads.records
        self._partition = records.partition(self.target.sink, query, self.heads.partitions)
        fault_point("sink.ledger-read")
        return StoredState(heads, records.batch(self.target.sink, query))

    def read_targets(self) -> Mapping[str, TargetLog]:
        """Read the logs of each topic. Raises SettingsError if one is missing or compacted."""
        topics = self.logs.topics(self.target.topics)
        missing = sorted(set(self.target.topics) - topics.keys())
        if missing and self._targets is not None:
            raise RetriableSinkError(
                f"{self.target.explain.label}: topic {missing[0]} existed when the batch began, "
                "but no longer does",
                cause="it was deleted, and may be about to be recreated",
            )
        described = {
            name: Topic(id=log.id, partitions=frozenset(log.ranges)) for name, log in topics.items()
        }
        before = self._targets
        self._targets = Targets.require(described, self.target.topics, self.target.explain)
        for name, log in topics.items():
            if before is None or before.topics[name].id != log.id:
                self._refuse_compacted(name)
        return topics

    def write_begun(self, record: BatchRecord) -> None:
        """Write the previous batch's heads, and `record`; delete batch records of older runs."""
        sink, query = self.target.sink, self.entry.query
        key = BatchKey(sink, query, record.run_id)
        self._refuse_foreign_records()  # first: another driver's heads would be newer
        for head_record in self._heads_to_write(query):
            self._to_ledger(head_record.key, head_record.value)
        self._to_ledger(key.encode(), record.encode())
        for earlier in self.heads.records.batch_keys(sink, query):
            if earlier != key:
                self._to_ledger(earlier.encode(), None)
        self._open_producer().flush(self.target.access.timeout)
        self._refuse_foreign_records()
        fault_point("sink.begun")

    def read_records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterable[TailRecord]:
        """Yield the records of the targets in these ranges."""
        with readable():
            for tp, offset, headers in self.logs.records(ranges):
                yield TailRecord(tp, offset, RowIdentity.from_headers(headers))
        fault_point("sink.tail-read")

    def absent(self, existing: Places) -> Places:
        """Return the `existing` rows that the batch lacks; Spark computes only the identities."""
        return self.rows.absent(existing)

    def write_rows(self, batch: int, existing: Places) -> int:
        """Send the rows that do not exist yet."""
        assert self._targets is not None  # noqa: S101  # the targets are read before
        written = self.rows.write(RowsTarget(self._targets, self._writer, batch), existing)
        fault_point("sink.rows-written")
        return written

    def write_applied(self, record: BatchRecord) -> None:
        """Write `record` of the applied batch, unless another driver has begun a batch."""
        explain = self.target.explain
        foreign = self._foreign_records()
        if foreign:
            raise ForeignWriterError(
                f"{explain.label}: the rows of batch {self.entry.batch_id} are written, possibly "
                f"twice: {foreign}",
                ranges={tp: move.range for tp, move in self.entry.moves.items()},
                cause="two drivers of this query are running. Without transactions neither is "
                "fenced",
                fix="Let only one of them run; the next batch names the duplicate rows",
            )
        key = BatchKey(self.target.sink, self.entry.query, record.run_id)
        self._to_ledger(key.encode(), record.encode())
        fault_point("sink.ledger-moved")
        try:
            self._open_producer().flush(self.target.access.timeout)
        except KafkaError as error:
            raise explain.unknown_outcome(error) from error

    @property
    def _writer(self) -> str:
        return writer_of(self.target.sink, self.entry.query)

    def _open_producer(self) -> IdempotentProducer:
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
        targets = {} if batch is None else batch.target_ids()
        return ledger.records_of_heads(sink, query, changed, written, targets)

    def _to_ledger(self, key: bytes, value: bytes | None) -> None:
        try:
            self._open_producer().send(self.heads.name, value, key=key, partition=self._partition)
        except TooLargeError as error:
            raise self.target.explain.size_error(len(value or b""), error) from error
        self._sent += 1

    def _refuse_foreign_records(self) -> None:
        foreign = self._foreign_records()
        if foreign:
            raise foreign_writer(self.target.explain.label, self.entry, foreign, self.entry.moves)

    def _foreign_records(self) -> str | None:
        """Return a text if another driver has added records to the ledger since the last read."""
        appended = self.heads.count_written(self.entry.query, self._partition)
        if appended == self._sent:
            return None
        return (
            f"since the ledger {self.heads.name} was read, {appended} records of this query were "
            f"appended to it, {self._sent} of them by this driver"
        )

    def _refuse_compacted(self, topic: str) -> None:
        if "compact" in self.logs.policy(topic):
            raise SettingsError(
                f"{self.target.explain.label}: topic {topic} is compacted, which "
                "transactions=False does not allow",
                cause="a row that Kafka deleted in favour of a newer one would be written again "
                "after a crash, and count as the newest",
                fix="Remove transactions=False, or write to a topic that deletes by age",
            )
