"""The topic of a sink's ledger: creates it if it does not exist, and reads it to its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from eo_listener.client_config.admin_commands import LEDGER_PARTITIONS, create_ledger
from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.errors import FormatError, KafkaError, RetriableSinkError, SinkError
from eo_listener.kafka.compacted_topic import CompactedTopic, Concerns, PendingRecord, Reading
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation
from eo_listener.sinks.target import not_created

_GRACE: Final = 1.0
"""Seconds to wait for the end of an open transaction of the same sink and query.

After its producer has the answer to the commit, a transaction stays open for some milliseconds,
until its markers are written.
"""


logger = logging.getLogger("eo_listener")


class LedgerTopic:
    """Reads heads from the ledger's topic. Raises KafkaError, SinkError and SettingsError."""

    def __init__(self, access: ConnectionSettings, topic: str, sink: str, *, create: bool) -> None:
        self._access = access
        self._sink = sink
        self._create = create
        self._decoder = ledger.Decoder()
        self._topic = CompactedTopic(access.properties(), topic, timeout=access.timeout)
        self._reported = False  # if unreadable records were logged
        self.records = ledger.LedgerRecords({})
        self.partitions = 0

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._topic.topic

    def heads(
        self, query: str, explain: Explanation, *, fenced: bool
    ) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`, up to the end of the log.

        If `fenced` is True, the caller has fenced all other producers of the query, or writes
        without transactions, so no transaction of the query should be open. If `fenced` is False, a
        transaction of the query that stays open counts as not committed; if it is committed later,
        the comparison after the fencing detects that. Raises SinkLockedError if a transaction of
        another query stays open; with `fenced`, if any transaction stays open.
        """
        concerns = ledger.concerns(self._sink, query)
        self.records = self._read(concerns, explain, tolerates_own=not fenced)
        with readable():
            return self.records.heads(self._sink, query)

    def moved_by(
        self, query_id: str, explain: Explanation
    ) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read all heads whose last move was by `query_id`, but not from open transactions."""
        concerns = ledger.concerns_mover(query_id)
        records = self._read(concerns, explain, tolerates_own=True)
        with readable():
            return records.moved_by(query_id)

    def check_written(self, query: str, partition: int, count: int) -> None:
        """Raise RetriableSinkError unless `query` has `count` more records than at the last read.

        The last read may have taken the log's end from a broker that was no longer the partition's
        leader. The broker that acknowledged the `count` records is the leader, so the method reads
        the log again.
        """
        written = self.count_written(query, partition)
        if written != count:
            raise RetriableSinkError(
                f"partition {partition} of the ledger's topic {self.name} has {written} new "
                f"records of this query, of which this driver just wrote {count}",
                cause="the partition's leader changed, and its log was read from the old leader",
                fix="Nothing to do: the batch is retried",
            )

    def count_written(self, query: str, partition: int) -> int:
        """Return how many records of `query` anybody has appended since the heads were read."""
        return self._topic.count_after(ledger.concerns(self._sink, query), partition)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def _require(self) -> None:
        """Create the topic if it does not exist, and check its cleanup.policy."""
        policy = self._topic.policy()
        if policy is None:
            if not self._create:
                creation = create_ledger(self._access.servers, self.name)
                raise not_created(f"the ledger's topic {self.name} does not exist", creation)
            self._topic.create(LEDGER_PARTITIONS, ledger.SETTINGS)
            policy = self._topic.policy()
        if policy is None:
            code = "UNKNOWN_TOPIC_OR_PART"
            raise KafkaError(f"topic {self.name} was deleted while it was being created", code=code)
        ledger.refuse_policy(self.name, policy, self._access.servers)

    def _read(
        self, concerns: Concerns, explain: Explanation, *, tolerates_own: bool
    ) -> ledger.LedgerRecords:
        self._require()
        reading = self._topic.read(concerns, pending_timeout=_GRACE if tolerates_own else 0.0)
        if _blocking(reading, tolerates_own) is not None:
            reading = self._topic.read(concerns, pending_timeout=self._access.timeout)
        blocking = _blocking(reading, tolerates_own)
        if blocking is not None:
            owner = ledger.owner(blocking.key)
            transactional_id = None if owner is None else sink_transactional_id(*owner)
            raise explain.locked_error(
                blocking.partition, blocking.offset, transactional_id, self._access.timeout
            )
        self.partitions = reading.partitions
        records = self._decoder.decode(reading.values)
        self._report(records)
        return records

    def _report(self, records: ledger.LedgerRecords) -> None:
        """Log once that the topic has unreadable records, of any sink and query."""
        if self._reported or not records.unreadable:
            return
        self._reported = True
        first = next(iter(records.unreadable.values()))
        logger.warning(
            "the ledger's topic %s has %d unreadable records, the first of them in partition %d. "
            "They stop only the sink and query that they belong to: %s",
            self.name,
            len(records.unreadable),
            first.partition,
            first.error,
        )


@contextmanager
def readable() -> Iterator[None]:
    """Raise SinkError if the block finds an unreadable record."""
    try:
        yield
    except FormatError as error:
        raise error.as_kind(SinkError) from error


def _blocking(reading: Reading, tolerates_own: bool) -> PendingRecord | None:
    """Return the first record of an open transaction for which the read must wait, or None."""
    return next(
        (record for record in reading.pending if not (tolerates_own and _hides_only_own(record))),
        None,
    )


def _hides_only_own(pending: PendingRecord) -> bool:
    """Return True if all hidden records belong to the sink and query whose transaction is open.

    A sink and query have one transaction at a time, so their committed records lie before it.
    """
    return {ledger.owner(key) for key in pending.hidden} == {ledger.owner(pending.key)}
