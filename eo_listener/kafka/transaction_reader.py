"""Reads which transactions are open in partitions, and hold up who reads committed records only.

The leaders are asked for the producers of a partition, the coordinators for these, and then the
leaders again: only a transaction that was open before and after is judged.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from eo_listener.client_config.acls import command_for
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.java_transactions import DescribedTransaction, JavaTransactions
from eo_listener.kafka.open_transactions import (
    CoordinatorAnswers,
    OpenTransaction,
    TransactionVerdict,
    holding,
    judge_transactions,
    still_open,
)
from eo_listener.kafka.stable_offsets import StableOffsets, stable_offsets
from eo_listener.kafka.state_partitions import state_partition
from eo_listener.model.errors import KafkaError, SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"

NOT_FOUND: Final = "TRANSACTIONAL_ID_NOT_FOUND"
_NO_ID_RIGHT: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
_NO_TOPIC_RIGHT: Final = "TOPIC_AUTHORIZATION_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReading:
    """What was found in some partitions.

    `held` has those whose last stable offset is not their end, from the one to the other; `errors`
    why that, or whose transactions are open there, is not known of one.
    """

    held: Mapping[TopicPartition, OffsetRange]
    transactions: tuple[OpenTransaction, ...]
    errors: Mapping[TopicPartition, KafkaError]


class TransactionReader:
    """Reads one cluster. For one thread; `timeout` bounds each of some questions, in seconds.

    `properties` are librdkafka's, and `java` has the same in its own names. Everything raises
    KafkaError.
    """

    def __init__(
        self, properties: Mapping[str, str], java: JavaTransactions, *, timeout: float = 15.0
    ) -> None:
        self._properties = dict(properties)
        self._java = java
        self._timeout = timeout
        self._cluster = ClusterReader(properties, timeout=timeout)

    def partitions(self, topics: Collection[str] | None) -> tuple[TopicPartition, ...]:
        """All of these topics, or of all but Kafka's own. Raises SettingsError for one missing."""
        found = self._cluster.partitions(topics)
        missing = sorted(set(topics or ()) - {tp.topic for tp in found})
        if missing:
            raise SettingsError(
                f"topic {missing[0]} does not exist, or this client may not see it",
                fix="Check the name and the rights",
            )
        return found

    def of_group(self, group: str) -> tuple[TopicPartition, ...]:
        """The partitions of the topics of which a group holds offsets, and where it keeps these."""
        topics = {tp.topic for tp in self._cluster.group(group)}
        stores = self._cluster.partitions([OFFSETS_TOPIC])
        if not stores:
            raise KafkaError(
                f"where group {group} keeps its offsets cannot be seen",
                code=_NO_TOPIC_RIGHT,
                cause=f"this client may not Describe {OFFSETS_TOPIC}, or there is none yet",
                fix="Name the topics instead: --topic; or as an administrator of the cluster: "
                + command_for(self._properties, ["Read"], ["--topic", OFFSETS_TOPIC]),
            )
        own = stores[state_partition(group, len(stores))]
        return (*(self._cluster.partitions(topics) if topics else ()), own)

    def stable(self, partitions: Collection[TopicPartition]) -> StableOffsets:
        """Up to where each of them may be read under `read_committed`, and its end."""
        return stable_offsets(self._cluster, partitions)

    def read(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        """Read which transactions are open in these partitions."""
        stable = self.stable(partitions)
        before = self._java.open_producers(stable.held, self._timeout)
        producers = {one.producer_id for opened in before.found.values() for one in opened}
        answers = self._coordinators(producers)
        after = self._java.open_producers(before.found, self._timeout)
        opened = still_open(before.found, after.found)
        now_ms = time.time_ns() // 1_000_000
        refused = {
            tp: self._explained(error, _NO_TOPIC_RIGHT, "Read", "--topic", tp.topic)
            for tp, error in {**before.errors, **after.errors}.items()
        }
        return TransactionReading(
            held=stable.held,
            transactions=judge_transactions(opened, answers, stable.held, now_ms),
            errors={**stable.errors, **refused},
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Ask the coordinator of an id. Raises SettingsError if it does not know the id."""
        try:
            return self._java.describe(transactional_id, self._timeout)
        except KafkaError as error:
            if error.code == NOT_FOUND:
                raise SettingsError(
                    f"no coordinator has the transactional id {transactional_id!r}",
                    cause="it is misspelled, or its transactions have expired",
                    fix="See which there are: eo-listener txn list",
                ) from None
            id_ = ("--transactional-id", transactional_id)
            raise self._explained(error, _NO_ID_RIGHT, "Describe", *id_) from error

    def open_of(self, transactional_id: str, described: DescribedTransaction) -> OpenTransaction:
        """The transaction that is open under an id, with what its partitions' leaders report.

        Partitions whose leader does not answer are left out, and the reason is in `why`, as it is
        if no partition shows the producer.
        """
        answer = self._java.open_producers(described.partitions, self._timeout)
        producers = {
            tp: one
            for tp, opened in answer.found.items()
            for one in opened
            if one.producer_id == described.producer_id
        }
        why = [
            str(self._explained(error, _NO_TOPIC_RIGHT, "Read", "--topic", tp.topic))
            for tp, error in sorted(answer.errors.items())
        ]
        # Kafka leaves out topics that a client may not describe, without an error.
        if not producers:
            why.append(
                "no leader shows its producer: it has written nothing yet, or this client may not "
                "Describe its topics"
            )
        return OpenTransaction(
            producer_id=described.producer_id,
            transactional_id=transactional_id,
            verdict=TransactionVerdict.OPEN,
            producers=producers,
            holds=holding(producers, self.stable(producers).held),
            described=described,
            why=why[0] if why else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _coordinators(self, producers: Collection[int]) -> CoordinatorAnswers:
        try:
            ids = self._java.transactional_ids(producers, self._timeout)
            hidden = None if set(producers) <= ids.keys() else self._hidden()
            answer = self._java.describe_all(ids.values(), self._timeout)
        except KafkaError as error:
            return CoordinatorAnswers(incomplete=str(error))
        return CoordinatorAnswers(
            ids=ids, described=answer.found, errors=answer.errors, incomplete=hidden
        )

    def _hidden(self) -> str | None:
        """Why coordinators may leave ids out: an id that nobody has stands for any other."""
        answer = self._java.describe_all([uuid4().hex], self._timeout)
        for error in answer.errors.values():
            if error.code == _NO_ID_RIGHT:
                all_ids = ("--transactional-id", "*")
                return str(self._explained(error, _NO_ID_RIGHT, "Describe", *all_ids))
            if error.code != NOT_FOUND:
                return str(error)
        return None

    def _explained(self, error: KafkaError, refused: str, right: str, *resource: str) -> KafkaError:
        """The same error; with the command that gives the right if it was `refused`."""
        if error.code != refused:
            return error
        return KafkaError(
            error.problem,
            code=error.code,
            cause="a right is missing",
            fix="As an administrator of the cluster: "
            + command_for(self._properties, [right], resource),
        )
