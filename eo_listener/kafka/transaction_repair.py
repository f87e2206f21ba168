"""Ends transactions that hold readers up, and looks afterwards whether they have ended.

- One that its coordinator has is ended by taking over its transactional id (InitProducerId, as
  `initTransactions` sends it): its producer is fenced, and the coordinator aborts what is open.
- One that no coordinator has is ended by the marker of an abort, which its partition's leader
  writes (WriteTxnMarkers, KIP-664). For any other that would tear it apart: its coordinator could
  still commit it in the other partitions. So leader and coordinators are asked once more
  immediately before each marker, and each marker is sent once.

Whatever Kafka answers, only what the leaders and the coordinator say afterwards counts. An answer
that did not come is neither success nor failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from eo_listener.client_config.acls import command_for
from eo_listener.kafka.batch_producer import BatchProducer
from eo_listener.kafka.coordinator_proof import NOT_FOUND
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    JavaTransactions,
    OpenProducer,
    OpenProducers,
)
from eo_listener.kafka.open_transactions import OpenTransaction
from eo_listener.kafka.stable_offsets import StableOffsets
from eo_listener.model.errors import InUseError, KafkaError
from eo_listener.model.kafka_errors import explain
from eo_listener.model.offsets import TopicPartition

_TIMEOUT: Final = 30.0  # seconds for each: to end it, and until that can be seen
_QUESTION: Final = 10.0
_PAUSE: Final = 0.2
# Its time-outs, in seconds. That of the transaction may be above what the brokers now allow.
_TAKEN_FOR: Final = (10.0, 1.0)
_TOO_LONG: Final = "INVALID_TRANSACTION_TIMEOUT"
_RIGHTS: Final = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Write",
    "CLUSTER_AUTHORIZATION_FAILED": "Cluster_Action",
}
_LATE: Final = "its marker is not written yet: its coordinator or its leader is slow"
_SHOWN: Final = "its leader shows it all the same: the partition may have moved to another broker"

ReadStable = Callable[[Collection[TopicPartition]], StableOffsets]


class End(Enum):
    """What is known of the end of a transaction in one place."""

    ENDED = "ended"
    """It is open there no more, and it does not hold readers up."""
    HELD = "ended, readers held up"
    """It is open there no more, but the last stable offset has not gone past it."""
    OPEN = "still open"
    UNKNOWN = "not known"
    LEFT = "left alone"
    """No marker was sent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far it has ended in one place, and `why` no further."""

    end: End
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """What is known of a transaction after it was to be ended, by partition.

    `coordinator` is the same of its coordinator; None where none has it.
    """

    partitions: Mapping[TopicPartition, Outcome]
    coordinator: Outcome | None = None

    @property
    def whole(self) -> bool:
        """Whether it has ended everywhere."""
        places = [*self.partitions.values(), *filter(None, [self.coordinator])]
        return all(one.end is End.ENDED for one in places)


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

    def fence(
        self,
        transactional_id: str,
        before: DescribedTransaction,
        producers: Mapping[TopicPartition, OpenProducer],
    ) -> EndedTransaction:
        """Take over the id, and return what is known of it then.

        Raises KafkaError for a right that is missing: nothing was changed then.
        """
        failed = self._take_over(transactional_id)
        if failed is not None and failed.code in _RIGHTS:
            raise self._explained(failed, ["--transactional-id", transactional_id])
        why = _LATE if failed is None else _reason(failed)
        return self._watched(producers, dict.fromkeys(producers, why), (transactional_id, before))

    def mark_aborted(self, found: OpenTransaction, *, live: bool = False) -> EndedTransaction:
        """Have the leaders write the markers, and return what is known of it then.

        Only for a transaction that no coordinator has; `live`: also where its producer writes on.
        Where anything else has changed, no marker more is sent: raises InUseError before the first
        one, and KafkaError for a right that is missing.
        """
        sent: dict[TopicPartition, str] = {}
        left: dict[TopicPartition, Outcome] = {}
        changed: InUseError | None = None
        for tp in sorted(found.producers):
            if changed is not None:
                left[tp] = Outcome(End.LEFT, str(changed))
                continue
            try:
                there = self._is_unchanged(found, tp, live=live)
            except InUseError as error:
                if not sent:
                    raise
                changed = error
                left[tp] = Outcome(End.LEFT, str(error))
            except KafkaError as error:
                left[tp] = Outcome(End.LEFT, f"it could not be looked at right before: {error}")
            else:
                sent[tp] = self._marked(tp, found.producers[tp], sent) if there else _SHOWN
        ended = self._watched({tp: found.producers[tp] for tp in sent}, sent, None)
        return replace(ended, partitions={**ended.partitions, **left})

    def _marked(
        self, tp: TopicPartition, producer: OpenProducer, sent: Mapping[TopicPartition, str]
    ) -> str:
        """Have the marker written; return why the transaction may still be open there."""
        try:
            self._java.abort(tp, producer, _QUESTION)
        except KafkaError as error:
            if error.code in _RIGHTS and not sent:
                raise self._explained(error, ["--cluster"]) from error
            return _reason(error)
        return _SHOWN

    def _take_over(self, transactional_id: str) -> KafkaError | None:
        """Return what it failed by: it may have been done all the same."""
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

    def _is_unchanged(self, found: OpenTransaction, tp: TopicPartition, *, live: bool) -> bool:
        """Look before a marker: at the leader, then at coordinators, where transactions begin.

        False where it is open there no more. Raises InUseError where anything else has changed.
        """
        before = found.producers[tp]
        answer = self._java.open_producers([tp], _QUESTION)
        for error in answer.errors.values():
            raise error
        now = {one.producer_id: one for one in answer.found.get(tp, ())}.get(before.producer_id)
        if now is None:
            return False
        if now != before and not (live and before.is_same(now)):
            raise _at_work(f"its producer has written to {tp}")
        named = self._java.transactional_ids([found.producer_id], _QUESTION).get(found.producer_id)
        if named != found.transactional_id:
            raise _at_work(f"a coordinator has its producer now, as {named!r}")
        if named is not None and self._java.describe(named, _QUESTION) != found.described:
            raise _at_work(f"{named!r} has a transaction at its coordinator that has changed")
        return True

    def _watched(
        self,
        producers: Mapping[TopicPartition, OpenProducer],
        reasons: Mapping[TopicPartition, str],
        known: tuple[str, DescribedTransaction] | None,
    ) -> EndedTransaction:
        """Look until it has ended everywhere, or the time is over.

        `reasons` are why a partition may still have it.
        """
        deadline = time.monotonic() + _TIMEOUT
        while True:
            now = EndedTransaction(
                partitions=self._partitions(producers, reasons),
                coordinator=None if known is None else self._coordinator(*known),
            )
            if now.whole or time.monotonic() >= deadline:
                return now
            time.sleep(_PAUSE)

    def _partitions(
        self,
        producers: Mapping[TopicPartition, OpenProducer],
        reasons: Mapping[TopicPartition, str],
    ) -> dict[TopicPartition, Outcome]:
        try:
            opened = self._java.open_producers(producers, _QUESTION)
            stable = self._stable(producers)
        except KafkaError as error:
            return dict.fromkeys(producers, Outcome(End.UNKNOWN, str(error)))
        return {
            tp: _outcome(tp, producer, opened, stable, reasons[tp])
            for tp, producer in sorted(producers.items())
        }

    def _coordinator(self, name: str, before: DescribedTransaction) -> Outcome:
        try:
            now = self._java.describe(name, _QUESTION)
        except KafkaError as error:
            gone = error.code == NOT_FOUND
            return Outcome(End.ENDED) if gone else Outcome(End.UNKNOWN, str(error))
        if now.started == before.started and (now.ongoing or now.ending):
            return Outcome(End.OPEN, f"its coordinator says {now.state}")
        return Outcome(End.ENDED)

    def _explained(self, error: KafkaError, resource: list[str]) -> KafkaError:
        acl = command_for(self._properties, [_RIGHTS[error.code]], resource)
        return KafkaError(
            error.problem,
            code=error.code,
            cause="a right is missing",
            fix=f"As an administrator of the cluster: {acl}",
        )


def _outcome(
    tp: TopicPartition,
    producer: OpenProducer,
    opened: OpenProducers,
    stable: StableOffsets,
    reason: str,
) -> Outcome:
    """How far it has ended in one partition; the leaders were asked before `stable` was read."""
    error = opened.errors.get(tp) or stable.errors.get(tp)
    if error is not None:
        return Outcome(End.UNKNOWN, str(error))
    open_there = opened.found.get(tp, ())
    if any(map(producer.is_same, open_there)):
        return Outcome(End.OPEN, reason)
    if tp not in stable.ranges:
        return Outcome(End.UNKNOWN, "the partition cannot be seen any more")
    at = stable.ranges[tp].start
    if at > producer.start or any(one.start <= producer.start for one in open_there):
        return Outcome(End.ENDED)
    return Outcome(
        End.HELD,
        f"consumers under read_committed still stand at {at}: its marker is not in all in-sync "
        "replicas yet, or too few of them are in sync",
    )


def _reason(error: KafkaError) -> str:
    lost = explain(error.code).outcome_unknown
    return f"{error}; it may have arrived all the same, and take effect yet" if lost else str(error)


def _at_work(what: str) -> InUseError:
    return InUseError(
        f"the transaction has changed right before its marker: {what}",
        cause="its program is alive, or somebody else ends it",
        fix="Stop that program, and look again: eo-listener txn list",
    )
