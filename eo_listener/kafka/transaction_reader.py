"""Reads which transactions are open in partitions, and hold up who reads committed records only.

The leaders are asked for the producers of a partition, the coordinators for these, and then the
leaders once more: a transaction that was open before and after, and that no coordinator had in
between, hangs. That each coordinator was asked, and would have named it, is proved
(`coordinator_proof`); else it is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from eo_listener.client_config.acls import command_for
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.coordinator_proof import (
    NO_ID_RIGHT,
    NO_TOPIC_RIGHT,
    NOT_FOUND,
    CoordinatorProof,
)
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    DescribedTransactions,
    JavaTransactions,
)
from eo_listener.kafka.oldest_records import oldest_records
from eo_listener.kafka.open_transactions import (
    CoordinatorAnswers,
    OpenInPartitions,
    OpenTransaction,
    TransactionVerdict,
    holds,
    judge_transactions,
    still_open,
)
from eo_listener.kafka.stable_offsets import StableOffsets, stable_offsets
from eo_listener.kafka.state_partitions import state_partition
from eo_listener.model.errors import KafkaError, SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"

_TIMES: Final = 5.0  # seconds for reading when records were written


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
        self._proof = CoordinatorProof(properties, java, timeout)

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
                code=NO_TOPIC_RIGHT,
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
        held = stable.held
        before = self._java.open_producers(held, self._timeout)
        answers = self._coordinators(before.found)
        after = self._java.open_producers(before.found, self._timeout)
        transactions = judge_transactions(still_open(before.found, after.found), answers, held)
        refused = {
            tp: self._explained(error, NO_TOPIC_RIGHT, "Read", "--topic", tp.topic)
            for tp, error in {**before.errors, **after.errors}.items()
        }
        return TransactionReading(
            held=held,
            transactions=self._with_times(transactions),
            errors={**stable.errors, **refused},
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """What the coordinator says of an id. Raises SettingsError where it has none such."""
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
            raise self._explained(error, NO_ID_RIGHT, "Describe", *id_) from error

    def open_of(self, transactional_id: str, described: DescribedTransaction) -> OpenTransaction:
        """The transaction that is open under an id, with what its partitions' leaders say of it.

        Partitions whose leader does not answer are left out, and the reason stands in `why`; so
        does that no partition shows it.
        """
        answer = self._java.open_producers(described.partitions, self._timeout)
        producers = {
            tp: one
            for tp, open_there in answer.found.items()
            for one in open_there
            if one.producer_id == described.producer_id
        }
        why = [
            str(self._explained(error, NO_TOPIC_RIGHT, "Read", "--topic", tp.topic))
            for tp, error in sorted(answer.errors.items())
        ]
        # Kafka leaves out topics that a client may not describe, without an error.
        if not producers:
            why.append(
                "no leader shows its producer: it has written nothing yet, or this client may not "
                "Describe its topics"
            )
        held = self.stable(producers).held
        return OpenTransaction(
            producer_id=described.producer_id,
            transactional_id=transactional_id,
            verdict=TransactionVerdict.OPEN,
            producers=producers,
            holds=frozenset(tp for tp, one in producers.items() if holds(tp, one, held)),
            described=described,
            why=why[0] if why else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _coordinators(self, found: OpenInPartitions) -> CoordinatorAnswers:
        producers = {one.producer_id for open_there in found.values() for one in open_there}
        try:
            ids = dict(self._java.transactional_ids(producers, self._timeout))
        except KafkaError as error:
            return CoordinatorAnswers(incomplete=str(error))
        why = None
        if producers - ids.keys():
            named = self._proof.named(producers - ids.keys())
            ids |= named.ids
            why = named.incomplete
        answer = self._described(ids.values())
        return CoordinatorAnswers(
            ids=ids, described=answer.found, errors=answer.errors, incomplete=why
        )

    def _described(self, names: Collection[str]) -> DescribedTransactions:
        try:
            return self._java.describe_all(names, self._timeout)
        except KafkaError as error:
            return DescribedTransactions(errors=dict.fromkeys(names, error))

    def _with_times(self, found: tuple[OpenTransaction, ...]) -> tuple[OpenTransaction, ...]:
        """The same; the time of the first record where no coordinator says when it began."""
        starts: dict[TopicPartition, int] = {}
        for one in found:
            if one.since is None:
                for tp, producer in one.producers.items():
                    starts[tp] = min(producer.start, starts.get(tp, producer.start))
        times = oldest_records(self._properties, starts, committed=False, seconds=_TIMES)
        return tuple(
            one
            if one.since is not None
            else replace(
                one,
                first_written=min(
                    (
                        times[tp]
                        for tp, producer in one.producers.items()
                        if tp in times and starts[tp] == producer.start
                    ),
                    default=None,
                ),
            )
            for one in found
        )

    def _explained(self, error: KafkaError, refused: str, right: str, *resource: str) -> KafkaError:
        """The same error; with the command that gives the right, where that was `refused`."""
        if error.code != refused:
            return error
        return KafkaError(
            error.problem,
            code=error.code,
            cause="a right is missing",
            fix="As an administrator of the cluster: "
            + command_for(self._properties, [right], resource),
        )
