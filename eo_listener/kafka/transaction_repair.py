"""Ends an open transaction by its transactional id, and looks afterwards whether it has ended.

The id is taken over (InitProducerId, as `initTransactions` sends it): its producer is fenced, and
the coordinator aborts what is open. Whatever Kafka answers, only what the leaders and the
coordinator report afterwards counts: an answer that did not come is neither success nor failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from eo_listener.client_config.acls import command_for
from eo_listener.kafka.batch_producer import BatchProducer
from eo_listener.kafka.java_transactions import DescribedTransaction, JavaTransactions
from eo_listener.kafka.open_transactions import OpenTransaction
from eo_listener.kafka.stable_offsets import StableOffsets
from eo_listener.kafka.transaction_reader import NOT_FOUND
from eo_listener.model.errors import KafkaError
from eo_listener.model.kafka_errors import explain
from eo_listener.model.offsets import TopicPartition

COORDINATOR: Final = "its coordinator"

_TIMEOUT: Final = 30.0  # seconds for each: to end it, and until that can be seen
_QUESTION: Final = 10.0
_PAUSE: Final = 0.2
# Its time-outs, in seconds. That of the transaction may be above what the brokers now allow.
_TAKEN_FOR: Final = (10.0, 1.0)
_TOO_LONG: Final = "INVALID_TRANSACTION_TIMEOUT"
_HELD: Final = (
    "ended, but consumers under read_committed stand still: its marker is not in all in-sync "
    "replicas yet, or too few of them are in sync"
)
_NO_RIGHT: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"

ReadStable = Callable[[Collection[TopicPartition]], StableOffsets]


class TransactionRepair:
    """Ends one transaction at a time. For one thread.

    `properties` are librdkafka's, and `java` has the same in its own names; `stable` reads up to
    where partitions may be read.
    """

    def __init__(
        self, properties: Mapping[str, str], java: JavaTransactions, stable: ReadStable
    ) -> None:
        self._properties = dict(properties)
        self._java = java
        self._stable = stable

    def fence(self, transactional_id: str, found: OpenTransaction) -> Mapping[str, str]:
        """Take over the id; return the places where it has not ended, each with the reason.

        A place is a partition or COORDINATOR. Raises KafkaError for a right that is missing:
        nothing was changed then.
        """
        failed = self._take_over(transactional_id)
        if failed is not None and failed.code == _NO_RIGHT:
            raise self._explained(failed, transactional_id)
        why = "its marker is not written yet" if failed is None else _reason(failed)
        deadline = time.monotonic() + _TIMEOUT
        while True:
            left = dict(self._left(transactional_id, found, why))
            if not left or time.monotonic() >= deadline:
                return left
            time.sleep(_PAUSE)

    def _take_over(self, transactional_id: str) -> KafkaError | None:
        """Return the error, if there was one: the id may be taken over all the same."""
        failed = None
        for seconds in _TAKEN_FOR:
            producer = BatchProducer(
                self._properties, transactional_id, transaction_timeout=seconds
            )
            try:
                producer.take_over(_TIMEOUT)
            except KafkaError as error:
                failed = error
                if error.code != _TOO_LONG:
                    break
            else:
                return None
            finally:
                producer.leave()
        return failed

    def _left(self, name: str, found: OpenTransaction, why: str) -> Iterator[tuple[str, str]]:
        """Where it is open, or holds readers up; the leaders are asked before `stable`."""
        if found.described is not None:
            yield from self._at_coordinator(name, found.described)
        try:
            answer = self._java.open_producers(found.producers, _QUESTION)
            stable = self._stable(found.producers)
        except KafkaError as error:
            yield from ((str(tp), f"not known: {error}") for tp in sorted(found.producers))
            return
        for tp, producer in sorted(found.producers.items()):
            refused = answer.errors.get(tp) or stable.errors.get(tp)
            opened = answer.found.get(tp, ())
            if refused is not None:
                yield str(tp), f"not known: {refused}"
            elif any(map(producer.is_same, opened)):
                yield str(tp), f"still open: {why}"
            elif tp not in stable.ranges:
                yield str(tp), "not known: the partition is gone"
            elif stable.ranges[tp].start <= producer.start and not any(
                one.start <= producer.start for one in opened
            ):
                yield str(tp), f"{_HELD} (offset {stable.ranges[tp].start})"

    def _at_coordinator(self, name: str, before: DescribedTransaction) -> Iterator[tuple[str, str]]:
        try:
            now = self._java.describe(name, _QUESTION)
        except KafkaError as error:
            if error.code != NOT_FOUND:
                yield COORDINATOR, f"not known: {error}"
        else:
            if now.started == before.started and (now.ongoing or now.ending):
                yield COORDINATOR, f"still open: its state is {now.state}"

    def _explained(self, error: KafkaError, transactional_id: str) -> KafkaError:
        id_ = ["--transactional-id", transactional_id]
        return KafkaError(
            error.problem,
            code=error.code,
            cause="a right is missing",
            fix="As an administrator of the cluster: "
            + command_for(self._properties, ["Write"], id_),
        )


def _reason(error: KafkaError) -> str:
    lost = explain(error.code).outcome_unknown
    return f"{error}; it may have arrived all the same, and take effect yet" if lost else str(error)
