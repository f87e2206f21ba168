"""The ledger's topic on its cluster: created when absent, read to its end."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final, TypeVar

from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.client_config.topic_commands import LEDGER_PARTITIONS, create_ledger
from eo_listener.kafka.compacted_topic import CompactedTopic, Concerns, PendingRecord
from eo_listener.kafka.logs import Logs
from eo_listener.model.errors import (
    FormatError,
    KafkaError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    SinkLockedError,
)
from eo_listener.model.ledger import AppliedBatch, Head, LedgerKey, StoredLedger
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation, with_right
from eo_listener.sinks.kafka.ledger import Decoder, LedgerRecords, history_of, owner

_GRACE: Final = 1.0
"""Seconds to wait for an open transaction of the same sink and query: after its commit was answered
it stays open for some milliseconds, until its markers are written."""
_LONG_GRACE: Final = 2.0  # the same of any sink and query, for who reads from outside
_Found = TypeVar("_Found")

logger = logging.getLogger("eo_listener")


class LedgerTopic:
    """Reads the heads of one ledger. Raises KafkaError, SinkError and SettingsError."""

    def __init__(self, access: ConnectionSettings, topic: str, sink: str, *, create: bool) -> None:
        self._access = access
        self._sink = sink
        self._create = create
        self._decoder = ledger.Decoder()
        self._topic = CompactedTopic(access.properties(), topic, timeout=access.timeout)
        self._reported = False  # of records that cannot be read
        self.records = ledger.LedgerRecords({})
        self.partitions = 0

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._topic.topic

    def heads(
        self, query: str, explain: Explanation, *, fenced: bool
    ) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`, to the end of the log.

        `fenced`: the caller has fenced all other producers of this query, so that none of them has
        a transaction open. Otherwise one that stays open counts as not committed; should it be
        committed later, the comparison after the fence finds that. Raises SinkLockedError where
        another query's transaction stays open.
        """
        concerns = ledger.concerns(self._sink, query)
        records = self.records = self._read(concerns, explain, ours=not fenced)
        return _readable(lambda: records.heads(self._sink, query))

    def moved_by(
        self, query_id: str, explain: Explanation
    ) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read all heads that a query id has moved; not those of transactions that stay open."""
        concerns = ledger.concerns_mover(query_id)
        records = self._read(concerns, explain, ours=True)
        return _readable(lambda: records.moved_by(query_id))

    def check_written(self, query: str, partition: int, count: int) -> None:
        """Raise RetriableSinkError unless the `count` records are all that `query` has had since.

        The log's end may have come from a broker that was no longer the partition's leader. The
        leader that has acknowledged these records is the right one, so the log is read again.
        """
        found = self.count_written(query, partition)
        if found != count:
            raise RetriableSinkError(
                f"partition {partition} of the ledger's topic {self.name} has {found} new records "
                f"of this query, of which {count} were just written",
                cause="the partition's leader has changed, and its log was read from the old one",
                fix="Nothing to do: the batch is repeated",
            )

    def count_written(self, query: str, partition: int) -> int:
        """How many records of `query` were appended since the heads were read, by anybody."""
        return self._topic.count_after(ledger.concerns(self._sink, query), partition)

    def close(self) -> None:
        """Let go of the connections."""
        self._topic.close()

    def _require(self) -> None:
        """Create the topic where it is missing, and check its cleanup.policy."""
        policy = self._topic.policy()
        if policy is None:
            if not self._create:
                raise SettingsError(
                    f"there is no topic {self.name} for the ledger, and create=False",
                    fix=create_ledger(self._access.servers, self.name),
                )
            self._topic.create(LEDGER_PARTITIONS, ledger.SETTINGS)
            policy = self._topic.policy()
        if policy is None:
            code = "UNKNOWN_TOPIC_OR_PART"
            raise KafkaError(f"topic {self.name} was deleted while it was created", code=code)
        ledger.refuse_policy(self.name, policy, self._access.servers)

    def _read(
        self, concerns: Concerns, explain: Explanation, *, ours: bool
    ) -> ledger.LedgerRecords:
        self._require()
        reading = self._topic.read(concerns, pending_timeout=_GRACE if ours else 0.0)
        in_the_way = [one for one in reading.pending if not (ours and _is_of_one(one))]
        if in_the_way:
            reading = self._topic.read(concerns, pending_timeout=self._access.timeout)
            in_the_way = [one for one in reading.pending if not (ours and _is_of_one(one))]
        if in_the_way:
            first = in_the_way[0]
            owner = ledger.owner(first.key)
            named = None if owner is None else sink_transactional_id(*owner)
            raise explain.locked(first.partition, first.offset, named, self._access.timeout)
        self.partitions = reading.partitions
        records = self._decoder.decode(reading.values)
        self._report(records)
        return records

    def _report(self, records: ledger.LedgerRecords) -> None:
        """Say once that there are records which cannot be read, whosever they are."""
        if self._reported or not records.unreadable:
            return
        self._reported = True
        first = next(iter(records.unreadable.values()))
        logger.warning(
            "the ledger's topic %s has %d records that cannot be read, the first of them in "
            "partition %d. They stop only the sink and query whose they are: %s",
            self.name,
            len(records.unreadable),
            first.partition,
            first.error,
        )


def _readable(ask: Callable[[], _Found]) -> _Found:
    """What it returns. Raises SinkError for a record that cannot be read."""
    try:
        return ask()
    except FormatError as error:
        raise SinkError(error.problem, cause=error.cause, fix=error.fix) from error


def _is_of_one(pending: PendingRecord) -> bool:
    """Whether all hidden records are of the sink and query whose transaction is open.

    These have one transaction at a time, so the records that they committed lie before it.
    """
    return {ledger.owner(key) for key in pending.hidden} == {ledger.owner(pending.key)}


class KafkaLedgerReader:
    """The `LedgerReader` of a topic; `properties` are librdkafka's, and may hold secrets.

    `timeout` bounds each question, in seconds.
    """

    def __init__(self, properties: Mapping[str, str], topic: str, *, timeout: float = 10.0) -> None:
        self._topic = topic
        self._properties, self._timeout = dict(properties), timeout
        self._servers = properties.get("bootstrap.servers", "")
        self._reader = CompactedTopic(properties, topic, timeout=timeout)
        self._records: LedgerRecords | None = None
        self.open: tuple[LedgerKey, ...] = ()
        self.partitions = 0

    @property
    def label(self) -> str:
        """The topic, and where it is."""
        return f"Kafka topic {self._topic} at {self._servers}"

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read all heads; `open` is then whose transactions stay open.

        What such a transaction would move is not among the heads. Raises SinkLockedError where it
        hides what others have committed, KafkaError where the topic may not be read.
        """
        with self._rights("Read"):
            if not self._reader.exists():
                raise self._missing()
            records = self._records = self.read(lambda _: True)
        keys = {LedgerKey(key.sink, key.query) for key in records.records}
        keys |= {LedgerKey(key.sink, key.query) for key in records.batches}
        there = self._ids({name for key in keys for name in records.targets(*key)})
        return {key: _stored(key, records, there) for key in keys}

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """What repairs have found and made: of batches a topic has heads only."""
        with self._rights("Read"):
            records = self._records or self.read(lambda _: True)
        return iter(history_of(one.repair for of, one in records.repairs.items() if of[:2] == key))

    @property
    def topic(self) -> CompactedTopic:
        """The topic that it reads."""
        return self._reader

    def require_there(self) -> str:
        """Its cleanup.policy. Raises SettingsError where there is no such topic."""
        with self._rights("Read", "Describe_Configs"):
            policy = self._reader.policy()
        if policy is None:
            raise self._missing()
        return policy

    def read(self, concerns: Callable[[LedgerKey | None], bool]) -> LedgerRecords:
        """Read what is committed, at least of those that it concerns. Raises as `ledgers` does."""
        with self._rights("Read"):
            reading = self._reader.read(
                lambda key, _: concerns(owner(key)),
                pending_timeout=_LONG_GRACE,
            )
        self.partitions = reading.partitions
        found: list[LedgerKey] = []
        for pending in reading.pending:
            owners = {owner(key) for key in pending.hidden}
            whose = owner(pending.key)
            if whose is None or owners != {whose}:
                raise SinkLockedError(
                    f"a transaction hides a part of {self.label}: it has been open since offset "
                    f"{pending.offset} of partition {pending.partition}",
                    cause="a query is writing a long batch, its driver was killed in one, or "
                    "another program's transaction is open there",
                    fix="Wait until it has ended, at the latest after its transaction_timeout; "
                    "whose it is, and how one ends that hangs: "
                    + shlex.join(["eo-listener", "txn", "list", "-b", self._servers])
                    + f" --topic {self._topic}",
                )
            found.append(whose)
        self.open = tuple(found)
        return Decoder().decode(reading.values)

    @contextmanager
    def _rights(self, *operations: str) -> Iterator[None]:
        """Have errors name the rights to the topic that are needed, where one is missing."""
        try:
            yield
        except KafkaError as error:
            named = with_right(error, self._properties, operations, (self._topic,))
            if named is error:
                raise
            raise named from error

    def _missing(self) -> SettingsError:
        return SettingsError(
            f"there is no topic {self._topic} at {self._servers}",
            cause="no Kafka sink has written to this cluster yet, or ledger_topic= is another",
            fix="Name the ledger's topic: kafka:TOPIC",
        )

    def _ids(self, names: Collection[str]) -> Mapping[str, str | None] | None:
        """The ids of those of the topics that exist; None where they may not be described."""
        if not names:
            return {}
        with closing(Logs(self._properties)) as logs:
            try:
                topics = logs.topics(names, time.monotonic() + self._timeout)
            except KafkaError:
                return None
        return {name: topic.id for name, topic in topics.items()}

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Raises SettingsError: a record does not say of which offset it is."""
        raise SettingsError(
            f"the rows of sink {sink} in {self.label} cannot be counted",
            cause=f"a record in Kafka has no columns {', '.join(columns)}",
            fix="Leave --rows out; what its ledger says is compared all the same",
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()


def _stored(
    key: LedgerKey, records: LedgerRecords, there: Mapping[str, str | None] | None
) -> StoredLedger:
    batch, targets = records.batch(*key), records.targets(*key)
    begun = None if batch is None or batch.is_finished else batch.batch_id
    replaced = [
        name
        for name, known in sorted(targets.items())
        if there is not None and (name not in there or there[name] not in (None, known))
    ]
    return StoredLedger(
        key=key,
        heads=records.heads(*key),
        moved_at={},
        begun=begun,
        targets=tuple(sorted(targets)),
        replaced=tuple(replaced),
    )
