"""Reads the positions that `eo-listener audit` compares, in the order given in `audit.positions`.

If a place cannot be read, the reader reports a finding, and still reads the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from eo_listener.audit.advice import FROM_EARLIEST
from eo_listener.audit.evidence import AppliedRange, LogFacts
from eo_listener.audit.group_checks import durable
from eo_listener.audit.history import read_history
from eo_listener.audit.intervals import Intervals, union, without
from eo_listener.audit.position_finding import PositionFinding
from eo_listener.audit.position_judge import not_read
from eo_listener.audit.positions import (
    CheckpointPositions,
    GroupPositions,
    LedgerPositions,
    Positions,
    SourcePositions,
    StorePositions,
    lowest,
)
from eo_listener.cli.spark_options import spark_for
from eo_listener.errors import (
    EoListenerError,
    KafkaError,
    MissingExtraError,
    SettingsError,
    StorageError,
)
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.range_reader import RecordReader, oldest_records
from eo_listener.model.ledger import Head, LedgerKey, StoredLedger
from eo_listener.model.planned_batch import BATCHES
from eo_listener.model.protocols import LedgerReader
from eo_listener.model.typed_command import ClusterCommands
from eo_listener.offsets import OffsetRange, Position, TopicPartition
from eo_listener.preflight.facts import GroupFacts
from eo_listener.sinks.ledger_address import LedgerAddress
from eo_listener.spark.checkpoint.checkpoint import Batches, Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError, FileFindingKind
from eo_listener.spark.checkpoint.location import shown
from eo_listener.spark.checkpoint.log_files import BatchOffsets
from eo_listener.spark.checkpoint.planned_batches import following_batch, planned_batch
from eo_listener.spark.session.local_spark import LocalSpark

_Ledgers = Mapping[LedgerKey, StoredLedger]
_UNKNOWN: Final[Mapping[str, str | None]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LedgerChoice:
    """Chooses a store's ledgers by the names of query and sink.

    Without `query`, the query id or the partitions of the checkpoint determine the choice.
    """

    query: str | None
    sink: str | None
    checkpoint: CheckpointPositions | None

    def read(self, reader: LedgerReader) -> StorePositions:
        """Read the chosen ledgers of a store. Raises the errors of `reader`."""
        every = reader.ledgers()
        chosen, moved = self.chosen(every), self._moved(every)
        return StorePositions(
            store=reader.label,
            ledgers=tuple(positions(reader, every[key]) for key in sorted(chosen)),
            other_keys=tuple(sorted(every.keys() - chosen)),
            renamed={key: moved[key] for key in sorted(moved.keys() - chosen)},
        )

    def chosen(self, every: _Ledgers) -> set[LedgerKey]:
        """Return the keys of the chosen ledgers."""
        keys = {key for key in every if self.sink is None or key.sink == self.sink}
        if self.query is not None:
            return {key for key in keys if key.query == self.query}
        if self.checkpoint is None or not self.checkpoint.exists:
            return keys
        moved = self._newest(every, keys & self._moved(every).keys())
        if moved:
            queries, sinks = {key.query for key in moved}, {key.sink for key in moved}
            known = self.checkpoint.done.keys() | self.checkpoint.began.keys()
            # A sink that no batch of this checkpoint has reached yet, or that was put back.
            return moved | {
                key
                for key in keys
                if key.query in queries
                and key.sink not in sinks
                and every[key].heads.keys() & known
            }
        first = self.checkpoint.has_done_nothing
        read = (self.checkpoint.began if first else self.checkpoint.done).keys()
        reading = {key for key in keys if every[key].heads.keys() & read}
        if first and len({key.query for key in reading}) > 1:
            return set()  # the query may be new, and have no ledger yet
        # Nothing shows whose ledger it is if the table was rolled back to before its first batch.
        emptied = {key for key in keys if every[key].rollback and not every[key].heads}
        return reading or (emptied if len(emptied) == 1 else set())

    def _moved(self, every: _Ledgers) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Return, by ledger, the heads that were last moved by the checkpoint's query."""
        own = None if self.checkpoint is None else self.checkpoint.query_id
        moved = {
            key: {tp: head for tp, head in ledger.heads.items() if head.query_id == own}
            for key, ledger in every.items()
        }
        return {key: heads for key, heads in moved.items() if heads}

    def _newest(self, every: _Ledgers, moved: set[LedgerKey]) -> set[LedgerKey]:
        """Return, for each sink, the key whose ledger has the newest batch.

        The query may have been renamed, so that a sink has several keys.

        A query that runs on a copy of the checkpoint has the same query id. So if exactly one
        ledger is at the checkpoint's newest batch or at the next batch, the method chooses that
        ledger.
        """
        last = -1 if self.checkpoint is None else self.checkpoint.newest
        newest = set()
        for sink in {key.sink for key in moved}:
            keys = sorted(key for key in moved if key.sink == sink)
            fit = [key for key in keys if _batch(every[key]) in (last, last + 1)]
            rest = fit if len(fit) == 1 else keys
            newest.add(max(rest, key=lambda key: _batch(every[key])))
        return newest


def positions(reader: LedgerReader, ledger: StoredLedger) -> LedgerPositions:
    """Read the history of `ledger`, and return the ledger with the facts from it."""
    history = read_history(reader.history(ledger.key), ledger.heads, newest=ledger.newest_only)
    return LedgerPositions(
        store=reader.label,
        key=ledger.key,
        heads=ledger.heads,
        began=history.began,
        gaps={tp: tuple(ranges) for tp, ranges in history.gaps.items()},
        missing={tp: tuple(ranges) for tp, ranges in history.missing.items()},
        repeated={tp: tuple(ranges) for tp, ranges in history.repeated.items()},
        unfinished_batch=ledger.unfinished_batch,
        rollback=ledger.rollback,
        targets=ledger.targets,
        replaced=ledger.replaced,
    )


def claims(
    reader: LedgerReader, sink: str, topic_ids: Mapping[str, str | None] = _UNKNOWN
) -> dict[TopicPartition, AppliedRange]:
    """Return the ranges whose rows a sink's table must have, merged from all its ledgers."""
    return merged(applied_ranges(reader, sink), topic_ids)


def applied_ranges(
    reader: LedgerReader, sink: str
) -> Iterator[tuple[TopicPartition, AppliedRange]]:
    """Yield the ranges that each query has applied to a sink's table.

    If the history does not record a partition's beginning, the range starts at 0, and offsets that
    are absent before the oldest batch of the history are not certainly lost.
    """
    for key, ledger in reader.ledgers().items():
        if key.sink == sink:
            yield from _claims(reader, ledger)


def merged(
    ranges: Iterable[tuple[TopicPartition, AppliedRange]], topic_ids: Mapping[str, str | None]
) -> dict[TopicPartition, AppliedRange]:
    """Merge the applied ranges of all queries; `topic_ids` are the topics' current ids."""
    by_partition: dict[TopicPartition, AppliedRange] = {}
    for tp, claim in ranges:
        now = topic_ids.get(tp.topic)
        by_partition[tp] = _both(by_partition[tp], claim, now) if tp in by_partition else claim
    return by_partition


def _claims(
    reader: LedgerReader, ledger: StoredLedger
) -> Iterator[tuple[TopicPartition, AppliedRange]]:
    history = read_history(reader.history(ledger.key), ledger.heads, newest=ledger.newest_only)
    for tp, head in ledger.heads.items():
        if tp != BATCHES:
            yield (
                tp,
                AppliedRange(
                    range=OffsetRange(history.began.get(tp, 0), head.range.until),
                    topic_id=head.topic_id,
                    gaps=tuple(history.gaps.get(tp, ())),
                    known_from=history.began.get(tp, history.oldest.get(tp, head.range.start)),
                    older={name: topic.range for name, topic in history.older.get(tp, {}).items()},
                ),
            )


def _both(first: AppliedRange, second: AppliedRange, now: str | None) -> AppliedRange:
    """Merge the ranges that two queries have applied to one partition of a table.

    `now` is the topic's id in Kafka. Of two topics of the same name the newer counts, if Kafka or a
    history shows which is newer. Offsets that one query has given up count as given up if the other
    query has not applied them. If the history of either query begins later than the query itself,
    nothing below that beginning is certain.
    """
    by_kafka = now is not None and now in (first.topic_id, second.topic_id)
    is_newer = first.topic_id == now if by_kafka else second.topic_id in first.older
    if second.topic_id is not None and is_newer:
        first, second = second, first
    older = dict(first.older)
    for name, offsets in second.older.items():
        older[name] = _spanned(older.get(name, offsets), offsets)
    if None not in (first.topic_id, second.topic_id) and first.topic_id != second.topic_id:
        name = str(first.topic_id)
        for offsets in first.ranges:
            older[name] = _spanned(older.get(name, offsets), offsets)
        return replace(second, older=older)
    applied = union((*_applied(first), *_applied(second)))
    return AppliedRange(
        range=second.range,
        topic_id=second.topic_id,
        gaps=without(union((*first.gaps, *second.gaps)), applied),
        known_from=max(first.known_from, second.known_from),
        older=older,
        beside=(*first.ranges, *second.beside),
    )


def _applied(applied: AppliedRange) -> Intervals:
    return without(union(applied.ranges), union(applied.gaps))


def _spanned(first: OffsetRange, second: OffsetRange) -> OffsetRange:
    return OffsetRange(min(first.start, second.start), max(first.until, second.until))


def _batch(ledger: StoredLedger) -> int:
    return max(head.batch_id for head in ledger.heads.values())


_SETTLE: Final = 3.0  # seconds in which a running listener can commit the batch that just ended
_PAUSE: Final = 0.5
_MARKERS: Final = 1000  # offsets that may be transaction markers only, so the audit reads them
_OLDEST: Final = 5.0  # seconds for the times of open transactions

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """The positions to compare; a place that is not named is None or empty."""

    #: The properties of Kafka's client; secret.
    properties: Mapping[str, str] | None = field(default=None, repr=False)
    checkpoint: str | None = None
    #: The options of the driver for the checkpoint's storage; secret.
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)
    groups: Sequence[str] = ()
    topics: Sequence[str] = ()
    ledgers: Sequence[LedgerAddress] = ()
    #: The schema of PostgreSQL's ledgers.
    schema: str | None = None
    #: The settings of the Spark that reads tables; secret.
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The name of the query in the ledgers.
    query: str | None = None
    #: The key of the sink in the ledgers.
    sink: str | None = None
    #: Topics that the query commits to no group.
    uncommitted: frozenset[str] = frozenset()
    #: True if the rows of the sinks' tables will be counted.
    counts_rows: bool = False

    @property
    def in_tables(self) -> frozenset[str]:
        """The addresses, without secrets, of the ledgers that only Spark can read.

        These are the ledgers in Iceberg and Delta tables.
        """
        return frozenset(address.shown for address in self.ledgers if address.in_table)

    @property
    def cluster(self) -> ClusterCommands:
        """The commands for the requested cluster."""
        return ClusterCommands.from_properties(self.properties, self.storage)

    @property
    def servers(self) -> str | None:
        """The bootstrap servers."""
        return None if self.properties is None else self.properties.get("bootstrap.servers")


class CheckpointReading:
    """Reads one checkpoint twice. Every method may raise StorageError or CheckpointError.

    `options` are those of the storage's driver, and may be secret.
    """

    def __init__(self, location: str, options: Mapping[str, Any]) -> None:
        self._checkpoint = Checkpoint(location, options)
        self.label = shown(location)

    def committed(self) -> CheckpointPositions:
        """Read the newest committed batch, and nothing that is only planned."""
        if not self._checkpoint.exists():
            return CheckpointPositions(label=self.label, exists=False)
        # Before, not after: a live query may commit a newer batch in between, which is not lost.
        newest = max(self._checkpoint.batches().committed, default=None)
        durable = self._checkpoint.committed()
        offsets = durable.offsets
        if offsets is not None:
            newest = max(offsets.batch, newest or 0)
        damaged = [str(finding) for finding in durable.findings]
        if offsets is not None and offsets.batch < (newest or 0) and not damaged:
            damaged.append(f"offsets/{newest} {FileFindingKind.MISSING.value}")
        return CheckpointPositions(
            label=self.label,
            query_id=self._checkpoint.query_id(),
            committed=newest,
            planned=newest,
            done={} if offsets is None else _ends(offsets),
            ahead={} if offsets is None else _ends(offsets),
            began=dict(self._began()),
            damaged=tuple(damaged),
            counted=offsets is not None and bool(offsets.non_kafka()),
        )

    def with_planned(self, committed: CheckpointPositions) -> CheckpointPositions:
        """Add the newest planned batch, if it comes after the newest committed batch.

        Also add the batch that is due next, unless the query has committed a batch meanwhile: then
        it is not certain that the ledgers, which were read in between, fit a batch of the
        checkpoint.
        """
        if not committed.exists:
            return committed
        batches = self._checkpoint.batches()
        newest = max(batches.planned, default=-1)
        rests = max(batches.committed, default=-1) == committed.newest and not committed.damaged
        if newest <= committed.newest:
            return self._with_next(committed, committed.newest + 1, batches) if rests else committed
        try:
            offsets = self._checkpoint.offsets(newest)
        except CheckpointError as error:
            if error.finding.kind is FileFindingKind.MISSING:  # it was deleted just now
                return committed
            return _damaged(replace(committed, planned=newest), error)
        written = offsets.planned_at
        planned = replace(
            committed,
            planned=newest,
            ahead=_ends(offsets),
            began=committed.began or dict(self._began()),
            counted=committed.counted or bool(offsets.non_kafka()),
            planned_ago=None if written is None else max(0.0, time.time() - written / 1000),
        )
        if not rests or offsets.continuous:
            return planned
        skipped = batches.skipped
        if (
            newest > committed.newest + 1
            and not skipped
            and not _are_consecutive(batches.committed)
        ):
            return planned  # asynchronous progress tracking, which leaves out files
        return self._with_next(replace(planned, skipped=skipped), newest, batches)

    def _with_next(
        self, positions: CheckpointPositions, batch: int, batches: Batches
    ) -> CheckpointPositions:
        """Add the plan of `batch`, the next batch to write. If a file is unusable, add its name."""
        try:
            if batch == positions.planned:
                plan = planned_batch(self._checkpoint, batch)
            elif batch:
                last = self._checkpoint.offsets(batch - 1)
                if last.continuous:
                    return positions
                for needed in batches.needed:
                    self._checkpoint.offsets(needed)
                plan = following_batch(self._checkpoint, last)
            else:  # nothing is planned yet
                return positions
        except CheckpointError as error:
            if max(self._checkpoint.batches().committed, default=-1) != positions.newest:
                return positions  # the query has gone on, and Spark has deleted the file
            return _damaged(positions, error)
        return replace(positions, next_batch=plan.began_at(positions.began))

    def _began(self) -> Iterator[tuple[TopicPartition, int]]:
        for source in self._checkpoint.folders("sources"):
            with suppress(CheckpointError):  # of a source that the query no longer has, perhaps
                yield from (self._checkpoint.initial(source) or {}).items()


def _are_consecutive(batches: Sequence[int]) -> bool:
    return bool(batches) and len(batches) == batches[-1] - batches[0] + 1


def _damaged(positions: CheckpointPositions, error: CheckpointError) -> CheckpointPositions:
    return replace(positions, damaged=(*positions.damaged, str(error.finding)))


def _ends(offsets: BatchOffsets) -> dict[TopicPartition, int]:
    """Return a batch's end offsets; if several sources read a partition, the lowest of these."""
    ends = lowest(offsets.kafka().values())
    if offsets.non_kafka():
        ends[BATCHES] = offsets.batch + 1
    return ends


class PositionReader:
    """Reads the positions once; `failures` then lists the places that could not be read.

    If `spark` is given, the reader reads tables with this Spark session, and leaves it open.
    Otherwise the reader starts its own Spark session, which `close` ends.
    """

    def __init__(self, request: AuditRequest, spark: LocalSpark | None = None) -> None:
        self._request = request
        self._spark = spark
        self._opened = ExitStack()
        self.failures: list[PositionFinding] = []
        self.readers: dict[str, LedgerReader] = {}
        self.logs: RecordReader | None = None

    def read(self) -> Positions:
        """Read all requested positions. Raises SettingsError for an impossible request."""
        request = self._request
        cluster = self._cluster()
        groups = {} if cluster is None else self._groups(cluster)
        reading = self._checkpoint()
        checkpoint = None
        if reading is not None:
            checkpoint = self._tried(f"checkpoint {reading.label}", reading.committed)
        stores = self._stores(checkpoint)
        if reading is not None and checkpoint is not None:
            before = checkpoint
            checkpoint = self._tried(
                f"checkpoint {reading.label}", lambda: reading.with_planned(before)
            )
        if checkpoint is None or not checkpoint.exists:  # ledgers are compared with each other
            stores = self._read_again(stores)
        source = None if cluster is None else self._source(groups, checkpoint, stores)
        ledgers = [ledger for store in stores for ledger in store.ledgers]
        done = durable(checkpoint, ledgers, request.uncommitted)
        return Positions(
            source=source,
            checkpoint=checkpoint,
            groups=() if cluster is None else tuple(self._reread(cluster, groups, done)),
            stores=tuple(stores),
            query=request.query,
            sink=request.sink,
            uncommitted=request.uncommitted,
        )

    def unread(self, group: GroupPositions, positions: Positions) -> set[TopicPartition]:
        """Return partitions in which a consumer of the group would still get a record.

        Transaction markers are offsets without a record: to tell them from records, the method
        reads the rest of the log if it is short. If that fails, it adds to `failures`.
        """
        logs = {} if positions.source is None else positions.source.logs

        def read() -> set[TopicPartition]:
            return {
                tp
                for tp, log in logs.items()
                if tp in group.after and self._has_records(tp, group.after[tp].offset, log.stable)
            }

        return self._tried(f"records after group {group.name}", read) or set()

    def _has_records(self, tp: TopicPartition, start: int, stable: int) -> bool:
        if not 0 < stable - start <= _MARKERS or self.logs is None:
            return stable > start
        visible = self.logs.visible(tp, (OffsetRange(start, stable),), committed=True)
        return any(records.start < stable and records.until > start for records in visible)

    def close(self) -> None:
        """Close the connections."""
        self._opened.close()

    def _tried(self, about: str, read: Callable[[], _T], lost: str = "") -> _T | None:
        """Call `read` and return its result; on an error, add it to `failures` and return None.

        `lost` is the fix to show if the error is that something does not exist.
        """
        try:
            return read()
        except MissingExtraError:
            raise
        except EoListenerError as error:
            gone = lost if isinstance(error, SettingsError) else ""
            self.failures.append(not_read(about, error, gone))
            return None

    def _checkpoint(self) -> CheckpointReading | None:
        location = self._request.checkpoint
        if location is None:
            return None
        try:
            return CheckpointReading(location, self._request.storage)
        except StorageError as error:  # no driver for such a storage
            self.failures.append(not_read(f"checkpoint {shown(location)}", error))
            return None

    def _cluster(self) -> ClusterDescriber | None:
        if self._request.properties is None:
            return None
        describer = ClusterDescriber(self._request.properties)
        self._opened.enter_context(closing(describer))
        reached = self._tried(f"cluster {self._request.servers}", describer.cluster)
        return None if reached is None else describer

    def _groups(self, cluster: ClusterDescriber) -> dict[str, GroupFacts]:
        facts = {name: self._held(cluster.group(name)) for name in self._request.groups}
        return {name: group for name, group in facts.items() if group is not None}

    def _held(self, facts: GroupFacts) -> GroupFacts | None:
        """Return `facts`; if the offsets could not be read, add a failure and return None."""
        if facts.held is not None:
            return facts
        error = KafkaError(
            f"its offsets cannot be read: {facts.held_error}",
            code=facts.held_error or "",
            fix=self._request.cluster.check_group(facts.name),
        )
        self.failures.append(not_read(f"group {facts.name}", error))
        return None

    def _reread(
        self,
        cluster: ClusterDescriber,
        groups: Mapping[str, GroupFacts],
        done: Mapping[TopicPartition, int],
    ) -> Iterator[GroupPositions]:
        """Read the groups again, and yield them.

        Groups that are behind have `_SETTLE` seconds, in all, to catch up.
        """
        deadline = time.monotonic() + _SETTLE
        for facts in groups.values():
            other_topics = {
                tp.topic
                for other_group in groups.values()
                if other_group is not facts
                for tp in other_group.held or ()
            }
            group = self._settled(cluster, facts, done, other_topics, deadline)
            if group is not None:
                yield group

    def _settled(
        self,
        cluster: ClusterDescriber,
        facts: GroupFacts,
        done: Mapping[TopicPartition, int],
        other_topics: Collection[str],
        deadline: float,
    ) -> GroupPositions | None:
        """Read one group again; if that fails, add the error to `failures` and return None."""
        before: Mapping[TopicPartition, Position] = facts.held or {}
        while True:
            now = self._held(cluster.group(facts.name))
            if now is None:
                return None
            after = now.held or {}
            if not _is_behind(before, after, done, other_topics) or time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE)
        return GroupPositions(
            name=facts.name,
            before=before,
            after=after,
            members=tuple(map(str, now.members)),
            had_members=facts.simple is False,
            unstable=now.unstable,
            error=now.error,
        )

    def _stores(self, checkpoint: CheckpointPositions | None) -> list[StorePositions]:
        request = self._request
        choice = LedgerChoice(request.query, request.sink, checkpoint)
        spark = self._spark
        if spark is None:
            spark = self._opened.enter_context(closing(spark_for(request.ledgers, request.spark)))
        stores: dict[int, StorePositions] = {}
        # Tables first: while Spark starts, the readings of other stores would grow old.
        for at, address in sorted(
            enumerate(request.ledgers), key=lambda entry: not entry[1].in_table
        ):
            reader = address.open(
                request.properties,
                schema=request.schema,
                spark=spark,
                query=request.query,
                counts_rows=request.counts_rows,
            )
            self._opened.enter_context(closing(reader))
            store = self._tried(reader.label, lambda: choice.read(reader), _lost(address))  # noqa: B023  # called at once
            if store is not None:
                store = _distinguished(replace(store, address=address.shown), self.readers)
                self.readers[store.store] = reader
                stores[at] = store
        return [stores[at] for at in sorted(stores)]

    def _read_again(self, stores: list[StorePositions]) -> list[StorePositions]:
        """Return `stores`; if the ledgers differ from each other, read them a second time.

        The ledgers may differ only because a running query moves them one after the other, while
        this class reads them one after the other.
        """
        ends = [ledger.ends for store in stores for ledger in store.ledgers]
        if all(ledger_ends == ends[0] for ledger_ends in ends):
            return stores
        return [replace(store, ledgers=tuple(self._later(store))) for store in stores]

    def _later(self, store: StorePositions) -> Iterator[LedgerPositions]:
        now = self._tried(store.store, self.readers[store.store].ledgers) or {}
        for ledger in store.ledgers:
            heads = now[ledger.key].heads if ledger.key in now else {}
            yield replace(ledger, later={tp: head.range.until for tp, head in heads.items()})

    def _source(
        self,
        groups: Mapping[str, GroupFacts],
        checkpoint: CheckpointPositions | None,
        stores: Iterable[StorePositions],
    ) -> SourcePositions | None:
        topics = set(self._request.topics)
        topics |= {tp.topic for facts in groups.values() for tp in facts.held or ()}
        if checkpoint is not None:
            topics |= {tp.topic for tp in (*checkpoint.ahead, *checkpoint.done)}
        topics |= {tp.topic for store in stores for ledger in store.ledgers for tp in ledger.heads}
        topics.discard(BATCHES.topic)
        if not topics:
            return None
        about = f"cluster {self._request.servers}"
        return self._tried(about, lambda: self._read_logs(topics))

    def _read_logs(self, topics: set[str]) -> SourcePositions:
        properties = self._request.properties or {}
        self.logs = RecordReader(properties)
        self._opened.enter_context(closing(self.logs))
        with closing(ClusterReader(properties)) as reader:
            partitions = reader.partitions(topics)
        for topic in sorted(set(self._request.topics) - {tp.topic for tp in partitions}):
            missing = SettingsError(
                f"it does not exist at {self._request.servers}, or the client lacks the right to "
                "Describe it",
                fix="check the name",
            )
            self.failures.append(not_read(f"topic {topic}", missing))
        logs = self.logs.facts(partitions)
        return SourcePositions(
            servers=self._request.servers or "", logs=logs, open_since=_open_since(properties, logs)
        )


def _distinguished(store: StorePositions, labels: Container[str]) -> StorePositions:
    """Add the address to the store's name if another store has the same name.

    A store's name does not contain all of its dsn: the service or the options may differ.
    """
    if store.store not in labels:
        return store
    name = f"{store.store} ({store.address})"
    ledgers = tuple(replace(ledger, store=name) for ledger in store.ledgers)
    return replace(store, store=name, ledgers=ledgers)


def _lost(address: LedgerAddress) -> str:
    """Return the fix for a missing ledger; the error of a Spark table has its own fix."""
    if address.store.is_apart:
        return (
            "if it was deleted, and the targets have everything that the checkpoint has "
            'committed, exactly_once(..., on_first="accept") recreates it and writes a batch in '
            "doubt again"
        )
    return "" if address.in_table else f"if it was lost and no copy exists, {FROM_EARLIEST}"


def _is_behind(
    before: Mapping[TopicPartition, Position],
    after: Mapping[TopicPartition, Position],
    done: Mapping[TopicPartition, int],
    other_topics: Collection[str],
) -> bool:
    """Return True if a running listener has not yet committed all offsets to a group.

    A topic counts only if the group holds offsets of it, or if it is not in `other_topics`.
    """
    topics = {tp.topic for tp in (*before, *after)}
    return any(
        tp not in after or after[tp].offset < at
        for tp, at in done.items()
        if tp != BATCHES and (tp.topic in topics or tp.topic not in other_topics or not topics)
    )


def _open_since(
    properties: Mapping[str, str], logs: Mapping[TopicPartition, LogFacts]
) -> dict[TopicPartition, float]:
    still_open = {tp: log.stable for tp, log in logs.items() if log.stable < log.end}
    times = oldest_records(properties, still_open, seconds=_OLDEST)
    now = time.time()
    return {tp: max(0.0, now - written / 1000) for tp, written in times.items()}
