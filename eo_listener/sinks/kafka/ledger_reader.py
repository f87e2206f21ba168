"""Reads the ledger in a topic; needs only the right to Read, creates no topic and fences nobody."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final

from eo_listener.client_config.admin_commands import with_right
from eo_listener.errors import KafkaError, SettingsError, SinkLockedError
from eo_listener.kafka.compacted_topic import CompactedTopic
from eo_listener.kafka.logs import Logs
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.sinks.kafka.ledger import Decoder, LedgerRecords, history_of, owner

_GRACE: Final = 2.0
"""Seconds to wait for the end of an open transaction.

After its producer has the answer to the commit, a transaction stays open for some milliseconds.
"""


class KafkaLedgerReader:
    """The `LedgerReader` of a topic; `properties`, for librdkafka, may hold secrets.

    `timeout` limits each request, in seconds.
    """

    def __init__(self, properties: Mapping[str, str], topic: str, *, timeout: float = 10.0) -> None:
        self._topic = topic
        self._properties, self._timeout = dict(properties), timeout
        self._servers = properties.get("bootstrap.servers", "")
        self.topic = CompactedTopic(properties, topic, timeout=timeout)
        self._records: LedgerRecords | None = None
        self.open: tuple[LedgerKey, ...] = ()
        self.partitions = 0

    @property
    def label(self) -> str:
        """The topic and its cluster, for display."""
        return f"Kafka topic {self._topic} at {self._servers}"

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Return all ledgers; after that, `open` names the ledgers that have an open transaction.

        The heads do not include the changes of such a transaction. Raises SinkLockedError if the
        transaction hides committed records of other ledgers, and KafkaError if this user has no
        right to read the topic.
        """
        with self._rights("Read"):
            if not self.topic.exists():
                raise self._missing()
            records = self._records = self.read(lambda _: True)
        keys = {LedgerKey(key.sink, key.query) for key in records.records}
        keys |= {LedgerKey(key.sink, key.query) for key in records.batches}
        topic_ids = self._ids({name for key in keys for name in records.targets(*key)})
        return {key: _stored(key, records, topic_ids) for key in keys}

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Yield the heads that repairs read and wrote, since a topic has no history of batches."""
        with self._rights("Read"):
            records = self._records or self.read(lambda _: True)
        return iter(
            history_of(
                stored.record
                for repair_key, stored in records.repairs.items()
                if repair_key[:2] == key
            )
        )

    def require_topic(self) -> str:
        """Return the topic's cleanup.policy. Raises SettingsError if the topic does not exist."""
        with self._rights("Read", "Describe_Configs"):
            policy = self.topic.policy()
        if policy is None:
            raise self._missing()
        return policy

    def read(self, concerns: Callable[[LedgerKey | None], bool]) -> LedgerRecords:
        """Read the committed records, at least of ledgers for which `concerns` returns True.

        Raises the errors of `ledgers`.
        """
        with self._rights("Read"):
            reading = self.topic.read(lambda key, _: concerns(owner(key)), pending_timeout=_GRACE)
        self.partitions = reading.partitions
        open_keys: list[LedgerKey] = []
        for pending in reading.pending:
            owners = {owner(key) for key in pending.hidden}
            ledger_key = owner(pending.key)
            if ledger_key is None or owners != {ledger_key}:
                raise SinkLockedError(
                    f"a transaction hides part of {self.label}: it has been open since offset "
                    f"{pending.offset} of partition {pending.partition}",
                    cause="a query is writing a long batch, its driver was killed in a batch, "
                    "or another program's transaction is open there",
                    fix=(
                        "Wait until it ends, after its transaction_timeout at the latest; to "
                        "see whose it is and how to end a hanging transaction: "
                        f"{shlex.join(['eo-listener', 'txn', 'list', '-b', self._servers])} "
                        f"--topic {self._topic}"
                    ),
                )
            open_keys.append(ledger_key)
        self.open = tuple(open_keys)
        return Decoder().decode(reading.values)

    @contextmanager
    def _rights(self, *operations: str) -> Iterator[None]:
        """Make errors in this block name the missing permissions on the topic."""
        try:
            yield
        except KafkaError as error:
            named = with_right(error, self._properties, operations, ("--topic", self._topic))
            if named is error:
                raise
            raise named from error

    def _missing(self) -> SettingsError:
        return SettingsError(
            f"topic {self._topic} does not exist at {self._servers}",
            cause="no Kafka sink has written to this cluster yet, or the sink has another "
            "ledger_topic=",
            fix="Name the ledger's topic: kafka:TOPIC",
        )

    def _ids(self, names: Collection[str]) -> Mapping[str, str | None] | None:
        """Return the ids of existing topics, or None if this user has no right to describe them."""
        if not names:
            return {}
        with closing(Logs(self._properties)) as logs:
            try:
                topics = logs.topics(names, time.monotonic() + self._timeout)
            except KafkaError:
                return None
        return {name: topic.id for name, topic in topics.items()}

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Raise SettingsError: a record in Kafka does not name the source offset of its row."""
        raise SettingsError(
            f"cannot count the rows of sink {sink} in {self.label}",
            cause=f"a record in Kafka has no columns {', '.join(columns)}",
            fix="Remove --rows; the audit still compares its ledger",
        )

    def close(self) -> None:
        """Close the connections."""
        self.topic.close()


def _stored(
    key: LedgerKey, records: LedgerRecords, topic_ids: Mapping[str, str | None] | None
) -> StoredLedger:
    batch, targets = records.batch(*key), records.targets(*key)
    begun = None if batch is None or batch.is_finished else batch.batch_id
    replaced = [
        name
        for name, target_id in sorted(targets.items())
        if topic_ids is not None
        and (name not in topic_ids or topic_ids[name] not in (None, target_id))
    ]
    return StoredLedger(
        key=key,
        heads=records.heads(*key),
        moved_at={},
        unfinished_batch=begun,
        targets=tuple(sorted(targets)),
        replaced=tuple(replaced),
    )
