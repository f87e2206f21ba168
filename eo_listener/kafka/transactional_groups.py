"""Commits to consumer groups in transactions, so that a new driver fences an older one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from confluent_kafka import KafkaError as Answer

from eo_listener.client_config.identities import transactional_id
from eo_listener.errors import KafkaError
from eo_listener.kafka.client import STABLE, TIMED_OUT, Client
from eo_listener.kafka.logs import GroupOffsets, Logs, group_offsets
from eo_listener.kafka.producers import FENCED, OffsetProducer, Stage
from eo_listener.kafka.simple_groups import Ownership, PooledGroupStore
from eo_listener.offsets import Position, TopicPartition

_UNKNOWN_TOPIC = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"})
# Errors of one partition that abort the whole transaction.
_OF_PARTITION = _UNKNOWN_TOPIC | {"TOPIC_AUTHORIZATION_FAILED", "OFFSET_METADATA_TOO_LARGE"}
_READ_TIMEOUT = 2.0
_PAUSE = 10.0  # seconds to wait for a commit of another driver that may exist
_STUCK = 10.0  # seconds for which a call of a producer may take although its group can be read


class TransactionalGroups(PooledGroupStore):
    """The consumer groups of one cluster: the `GroupStore` of the transactional commit mode.

    Each group has a producer with its own `transactional.id`, which never changes. The first use of
    a producer fences the id's previous producer, which gets `_FENCED` and never works again. A
    group store that was fenced never fences back: every later call raises the same error.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties, _Transactions)


class _Transactions:
    """Commits to one group in transactions, and reads the group's offsets."""

    def __init__(
        self, properties: Mapping[str, str], group: str, ownership: Ownership, logs: Logs
    ) -> None:
        self._properties = properties
        self._group = group
        self._action = f"committing to group {group}"
        self._ownership = ownership
        self._logs = logs
        # A transaction that was just committed stays pending for some milliseconds.
        self._client = Client(properties, group, role=STABLE)
        self._membership = self._client.consumer.consumer_group_metadata()
        self._producer: OffsetProducer | None = None
        self._readable: float | None = None
        self._owns_group = bool(ownership.partitions)
        self._retake_at: float | None = None

    @property
    def busy(self) -> bool:
        return self._producer is not None and self._producer.busy

    def commit(
        self, positions: Mapping[TopicPartition, Position], deadline: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit all positions in one transaction; if some partitions fail, commit the others."""
        try:
            self.transact(positions, deadline)
        except KafkaError as error:
            if error.code not in _OF_PARTITION:
                raise
            return self._commit_parts(positions, error, deadline)
        return dict.fromkeys(positions)

    def transact(self, positions: Mapping[TopicPartition, Position], deadline: float) -> None:
        """Commit all positions or none.

        Raises KafkaError; after `_TIMED_OUT` the outcome is unknown.
        """
        producer = self._ready(deadline)
        producer.start(positions, self._membership, deadline)
        if not producer.wait(deadline):
            raise producer.failure(self._action, Answer(TIMED_OUT))
        error = self._conclude(producer)
        if error is not None:
            raise error

    def offsets(self, partitions: Collection[TopicPartition], deadline: float) -> GroupOffsets:
        """Return the group's offsets.

        First takes over the group, unless this object owns the group already or has lost it.
        """
        if not self._owns_group and self._ownership.loss is None:
            self.transact({}, deadline)
        offsets = group_offsets(self._client, self._group, partitions, deadline)
        self._client.errors.forget()
        if self.busy:
            self._readable = self._readable or time.monotonic()
        if self._ownership.loss is None:
            self._ownership.record_read(offsets.positions)
        return offsets

    def poll(self) -> None:
        self._client.poll()
        if self._producer is not None:
            self._producer.poll()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
        self._client.close()

    def _commit_parts(
        self, positions: Mapping[TopicPartition, Position], error: KafkaError, deadline: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit again, without the partitions that caused the transaction's abort."""
        answer: dict[TopicPartition, str | None] = {}
        parts: Iterable[Collection[TopicPartition]]
        if error.code in _UNKNOWN_TOPIC:
            existing = self._logs.existing(positions, deadline)
            answer |= {tp: error.code for tp in positions if tp not in existing}
            parts = [existing] if existing and answer else []
        else:
            topics: defaultdict[str, list[TopicPartition]] = defaultdict(list)
            for tp in positions:
                topics[tp.topic].append(tp)
            parts = topics.values() if len(topics) > 1 else []
        for part in parts:
            try:
                self.transact({tp: positions[tp] for tp in part}, deadline)
            except KafkaError as failed:
                answer |= dict.fromkeys(part, failed.code)
            else:
                answer |= dict.fromkeys(part)
        if not answer:
            raise error
        return answer

    def _ready(self, deadline: float) -> OffsetProducer:
        """Return a producer without a call in progress; make a new one if the last is unusable."""
        self._require_not_lost()
        if self._producer is not None and self._producer.busy:
            self._unstick(self._producer, deadline)
        if self._producer is not None:
            self._conclude(self._producer)  # finishes a transaction that no call waited for
            if self._producer.stage is Stage.DEAD:
                self._producer = None
        if self._producer is None:
            if self._owns_group:
                self._require_not_taken_over(deadline)
            if self._retake_at is not None and time.monotonic() < self._retake_at:
                raise self._broker_ended("waiting to see if a successor commits")
            self._producer = OffsetProducer(
                self._properties, transactional_id(self._group), self._ownership
            )
        return self._producer

    def _conclude(self, producer: OffsetProducer) -> KafkaError | None:
        """Return the last transaction's error, or None. Raises KafkaError if the group is lost."""
        self._readable = None
        self._owns_group = self._owns_group or producer.stage is not Stage.NEW
        answer, producer.error = producer.error, None
        if answer is None:
            producer.connection_errors.forget()
            return None
        if answer.name() not in FENCED:
            return producer.failure(self._action, answer)
        producer.stage = Stage.DEAD
        if producer.outlived:
            cause = (
                "it was open for longer than transaction.timeout.ms: the driver or the broker "
                "was delayed in the middle of it"
            )
        else:
            if not producer.young or self._retake_at is not None:
                self._ownership.loss = answer.str()
                self._require_not_lost()
            self._require_not_taken_over(time.monotonic() + _READ_TIMEOUT)
            self._retake_at = time.monotonic() + _PAUSE
            cause = (
                "a successor, or a late request of this client, ended it soon after it had begun"
            )
        return self._broker_ended(cause)

    def _broker_ended(self, cause: str) -> KafkaError:
        return KafkaError(
            f"{self._action} failed: the broker ended the transaction",
            code="_TIMED_OUT",
            cause=cause,
        )

    def _unstick(self, producer: OffsetProducer, deadline: float) -> None:
        """Wait for a call that has not returned; if the call is stuck, abandon the producer.

        While Kafka is unreachable, the call rightly does not return. So the method abandons the
        producer only if the group could be read for a while, and the call has still not returned.
        """
        wait_until = deadline - 1.0
        if self._readable is not None:
            wait_until = min(wait_until, self._readable + _STUCK)
        if producer.wait(wait_until):
            return
        self._require_not_taken_over(max(deadline, time.monotonic() + 1.0))
        now = time.monotonic()
        self._readable = self._readable or now
        if now - self._readable < _STUCK:
            raise producer.failure(self._action, Answer(TIMED_OUT))
        self._readable = None
        self._producer = None

    def _require_not_taken_over(self, deadline: float) -> None:
        """Raise KafkaError if another committer has committed since this object did."""
        partitions = self._ownership.partitions
        offsets = group_offsets(self._client, self._group, partitions, deadline)
        self._ownership.compare(offsets.positions)
        self._require_not_lost()

    def _require_not_lost(self) -> None:
        self._ownership.require_owned(self._action, "_FENCED")
