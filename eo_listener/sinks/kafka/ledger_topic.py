"""The ledger's topic on its cluster: made when absent, read to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.kafka.compacted_topic import CompactedTopic, PendingRecord
from eo_listener.model.errors import FormatError, KafkaError, SettingsError
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import ledger
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation

_GRACE: Final = 1.0
"""Seconds for a transaction of our own to end that is open when the ledger is read. One that was
committed is pending for some milliseconds more."""


class LedgerTopic:
    """Reads the heads of one ledger. Raises KafkaError, SinkLockedError, FormatError."""

    def __init__(self, access: ConnectionSettings, topic: str, sink: str, *, create: bool) -> None:
        self._access = access
        self._sink = sink
        self._create = create
        self._decoder = ledger.Decoder()
        self._topic = CompactedTopic(access.properties(), topic, timeout=access.timeout)
        self._checked = False
        self.records = ledger.LedgerRecords({})
        self.partitions = 0

    @property
    def name(self) -> str:
        """The topic."""
        return self._topic.topic

    def heads(
        self, query: str, explain: Explanation, *, fenced: bool
    ) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`, to the end of the log.

        `fenced`: nobody but the caller can have a transaction of this query open. Otherwise one
        that stays open counts as not committed, as it is: what it writes, if it still does, the
        comparison after the fence finds. Another query's is waited for, and then raises
        SinkLockedError.
        """
        concerns = ledger.concerns(self._sink, query)
        self._require()
        wait = 0.0 if fenced else _GRACE
        reading = self._topic.read(concerns, wait=wait)
        foreign = [one for one in reading.pending if fenced or not concerns(one.key)]
        if foreign:
            reading = self._topic.read(concerns, wait=self._access.timeout)
            foreign = [one for one in reading.pending if fenced or not concerns(one.key)]
        if foreign:
            raise self._locked(foreign[0], explain)
        self.records = self._decoder.decode(reading.values)
        self.partitions = reading.partitions
        return self.records.heads(self._sink, query)

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read all heads that a query id has moved, as far as transactions have ended."""
        self._require()
        reading = self._topic.read(lambda _: True, wait=_GRACE)
        return self._decoder.decode(reading.values).moved_by(query_id)

    def close(self) -> None:
        """Let go of the connections."""
        self._topic.close()

    def _require(self) -> None:
        """Make the topic where it is missing, and check it once."""
        policy = self._topic.policy()
        if policy is None:
            if not self._create:
                raise SettingsError(
                    f"there is no topic {self.name} for the ledger, and create=False",
                    fix=f"kafka-topics --bootstrap-server {self._access.servers} --create --topic "
                    f"{self.name} --config cleanup.policy=compact --partitions {ledger.PARTITIONS}",
                )
            self._topic.create(ledger.PARTITIONS, ledger.SETTINGS)
            policy = self._topic.policy()
        if policy is None:
            code = "UNKNOWN_TOPIC_OR_PART"
            raise KafkaError(f"topic {self.name} was deleted while it was made", code=code)
        ledger.refuse_policy(self.name, policy, self._access.servers)

    def _locked(self, pending: PendingRecord, explain: Explanation) -> Exception:
        try:
            key = ledger.RecordKey.decode(pending.key)
        except FormatError:
            owner = None
        else:
            owner = sink_transactional_id(key.sink, key.query)
        return explain.locked(pending.partition, pending.offset, owner, self._access.timeout)
