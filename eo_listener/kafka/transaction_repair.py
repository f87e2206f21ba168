"""Ends transactions that hold readers up, and looks afterwards whether they have ended.

- One that its coordinator has is ended by taking over its transactional id (InitProducerId, as
  `initTransactions` sends it): its producer is fenced, and the coordinator aborts what is open.
- One that no coordinator has is ended by the marker of an abort, which its partition's leader
  writes (WriteTxnMarkers, KIP-664). For any other that would tear it apart: its coordinator could
  still commit it in the other partitions.

Whatever Kafka answers, only what the leaders and the coordinator say afterwards counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from eo_listener.client_config.acls import command
from eo_listener.client_config.translate import principal
from eo_listener.kafka.batch_producer import BatchProducer
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    JavaTransactions,
    OpenProducer,
)
from eo_listener.model.errors import KafkaError, few
from eo_listener.model.offsets import TopicPartition

_TIMEOUT: Final = 30.0  # seconds for each: to end it, and until that can be seen
_QUESTION: Final = 10.0
_PAUSE: Final = 0.2
_RIGHTS: Final = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Write",
    "CLUSTER_AUTHORIZATION_FAILED": "Cluster_Action",
}


class TransactionRepair:
    """Ends one transaction at a time. For one thread.

    `properties` are librdkafka's, and `java` has the same in its own names.
    """

    def __init__(self, properties: Mapping[str, str], java: JavaTransactions) -> None:
        self._properties = dict(properties)
        self._java = java

    def fence(
        self,
        transactional_id: str,
        before: DescribedTransaction,
        producers: Mapping[TopicPartition, OpenProducer],
    ) -> None:
        """Take over the id. Returns when the transaction is gone; else raises KafkaError."""
        failed: KafkaError | None = None
        producer = BatchProducer(
            self._properties, transactional_id, transaction_timeout=max(1.0, before.timeout)
        )
        try:
            producer.take_over(_TIMEOUT)
        except KafkaError as error:
            failed = self._explained(error, ["--transactional-id", transactional_id])
        finally:
            producer.leave()
        what = f"the transaction of {transactional_id!r}"
        self._require_gone(what, producers, failed, (transactional_id, before))

    def mark_aborted(self, producers: Mapping[TopicPartition, OpenProducer]) -> None:
        """Have the leaders write the markers. Returns when all are gone; else raises KafkaError.

        Only for a transaction that no coordinator has.
        """
        failed: KafkaError | None = None
        for tp, producer in sorted(producers.items()):
            try:
                self._java.abort(tp, producer, _QUESTION)
            except KafkaError as error:
                failed = self._explained(error, ["--cluster"])
        self._require_gone("the transaction", producers, failed, None)

    def _require_gone(
        self,
        what: str,
        producers: Mapping[TopicPartition, OpenProducer],
        failed: KafkaError | None,
        known: tuple[str, DescribedTransaction] | None,
    ) -> None:
        """Look until it is gone; what has `failed` is raised where it is not."""
        deadline = time.monotonic() + (_TIMEOUT if failed is None else _QUESTION)
        while left := self._known_left(what, producers, known):
            if failed is not None and (failed.code in _RIGHTS or time.monotonic() >= deadline):
                raise failed
            if time.monotonic() >= deadline:
                raise KafkaError(
                    f"{what} is still open after {_TIMEOUT:g} s: {few(left)}",
                    code="CONCURRENT_TRANSACTIONS",
                    cause="its markers are not written yet: a partition has no leader, or a broker "
                    "is slow",
                    fix="Look again: eo-listener txn list",
                )
            time.sleep(_PAUSE)

    def _known_left(
        self,
        what: str,
        producers: Mapping[TopicPartition, OpenProducer],
        known: tuple[str, DescribedTransaction] | None,
    ) -> list[str]:
        try:
            return self._left(producers, known)
        except KafkaError as error:
            raise KafkaError(
                f"it is not known whether {what} has ended: Kafka cannot be asked any more",
                code=error.code,
                cause=error.problem,
                fix="When Kafka answers again: eo-listener txn list",
            ) from error

    def _left(
        self,
        producers: Mapping[TopicPartition, OpenProducer],
        known: tuple[str, DescribedTransaction] | None,
    ) -> list[str]:
        """Where it is still open."""
        found = self._java.open_producers(producers, _QUESTION)
        for error in found.errors.values():
            if known is None:
                raise error
        left = [
            str(tp)
            for tp, producer in sorted(producers.items())
            if any(_is_same(producer, one) for one in found.found.get(tp, ()))
        ]
        if known is not None:
            name, before = known
            now = self._java.describe(name, _QUESTION)
            if now.started == before.started and (now.ongoing or now.ending):
                left.append(f"its coordinator ({now.state})")
        return left

    def _explained(self, error: KafkaError, resource: list[str]) -> KafkaError:
        right = _RIGHTS.get(error.code)
        if right is None:
            return error
        servers = self._properties.get("bootstrap.servers", "")
        acl = command(servers, principal(self._properties), [right], resource)
        return KafkaError(
            error.problem,
            code=error.code,
            cause="a right is missing",
            fix=f"As an administrator of the cluster: {acl}",
        )


def _is_same(before: OpenProducer, now: OpenProducer) -> bool:
    return (before.producer_id, before.start) == (now.producer_id, now.start)
