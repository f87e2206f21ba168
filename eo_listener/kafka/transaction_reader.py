"""Reads which transactions are open in partitions, and hold up who reads committed records only.

The leaders are asked for the producers of a partition, the coordinators for these, and then the
leaders once more: a transaction that was open before and after, and that no coordinator had in
between, hangs. Whether each coordinator was asked, and would have named it, is found out too:

- Kafka leaves out of its lists what a client may not describe, without an error. A client that is
  answered "not found" for an id that nobody has may describe every id, but for those that an ACL
  keeps from it by their name: by a denial, or, with `allow.everyone.if.no.acl.found`, by a right of
  others.
- A partition of `__transaction_state` without a leader has a coordinator that nobody can ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from confluent_kafka import KafkaException

from eo_listener.client_config.acls import command
from eo_listener.client_config.translate import principal
from eo_listener.kafka.client import Client, answer_of
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.java_transactions import DescribedTransaction, JavaTransactions
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
from eo_listener.model.errors import KafkaError, SettingsError
from eo_listener.model.kafka_errors import NO_TOPIC
from eo_listener.model.offsets import OffsetRange, TopicPartition

NOT_FOUND: Final = "TRANSACTIONAL_ID_NOT_FOUND"
OFFSETS_TOPIC: Final = "__consumer_offsets"

_STATE_TOPIC: Final = "__transaction_state"
_NO_RIGHT: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
_NO_TOPIC_RIGHT: Final = "TOPIC_AUTHORIZATION_FAILED"
_TIMES: Final = 5.0  # seconds for reading when records were written


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReading:
    """What was found in some partitions.

    `held` has those whose last stable offset is not their end, from the one to the other; `errors`
    why the leader of one could not be asked.
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
                fix="Name the topics instead: --topic; or as an administrator: "
                + self._acl("Read", "--topic", OFFSETS_TOPIC),
            )
        own = stores[offsets_partition(group, len(stores))]
        return (*(self._cluster.partitions(topics) if topics else ()), own)

    def held(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        """The partitions whose last stable offset is not their end."""
        ends = self._cluster.log_ends(partitions)
        stable = self._cluster.stable_ends(ends)
        return {
            tp: OffsetRange(stable[tp], end)
            for tp, end in ends.items()
            if tp in stable and stable[tp] < end
        }

    def read(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        """Read which transactions are open in these partitions."""
        held = self.held(partitions)
        if not held:
            return TransactionReading(held={}, transactions=(), errors={})
        before = self._java.open_producers(held, self._timeout)
        answers = self._coordinators(before.found)
        after = self._java.open_producers(before.found, self._timeout) if before.found else before
        transactions = judge_transactions(still_open(before.found, after.found), answers, held)
        return TransactionReading(
            held=held,
            transactions=self._with_times(transactions),
            errors={
                tp: self._with_right(error, tp)
                for tp, error in {**before.errors, **after.errors}.items()
            },
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
            raise self._without_right(error, transactional_id) from error

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
        why = [str(self._with_right(error, tp)) for tp, error in sorted(answer.errors.items())]
        # Kafka leaves out topics that a client may not describe, without an error.
        if not producers:
            why.append(
                "no leader shows its producer: it has written nothing yet, or this client may not "
                "Describe its topics"
            )
        held = self.held(producers)
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
        if not producers:
            return CoordinatorAnswers()
        try:
            ids = self._java.transactional_ids(producers, self._timeout)
        except KafkaError as error:
            return CoordinatorAnswers(incomplete=str(error))
        described: dict[str, DescribedTransaction] = {}
        errors: dict[str, KafkaError] = {}
        for name in ids.values():
            try:
                described[name] = self._java.describe(name, self._timeout)
            except KafkaError as error:
                errors[name] = error
        why = self._incomplete() if producers - ids.keys() else None
        return CoordinatorAnswers(ids=ids, described=described, errors=errors, incomplete=why)

    def _incomplete(self) -> str | None:
        """Why a coordinator may have a transaction and not have named it; None: there is no why."""
        try:
            self._java.describe(str(uuid4()), self._timeout)  # an ACL of a prefix must not fit
        except KafkaError as error:
            if error.code == _NO_RIGHT:
                return f"this client may not describe every transactional id ({self._every_id()})"
            if error.code != NOT_FOUND:
                return str(error)
        return self._without_coordinator()

    def _without_coordinator(self) -> str | None:
        what = f"reading topic {_STATE_TOPIC}"
        with closing(Client(self._properties, "eo-listener-reader")) as client:
            try:
                found = client.consumer.list_topics(_STATE_TOPIC, timeout=self._timeout)
            except KafkaException as error:
                return str(client.failure(what, answer_of(error)))
        topic = found.topics[_STATE_TOPIC]
        if topic.error is not None:
            name = topic.error.name()
            if name in NO_TOPIC:
                return None  # so there is no coordinator either
            right = self._acl("Describe", "--topic", _STATE_TOPIC)
            return f"{what} failed: {name}" + (f" ({right})" if name == _NO_TOPIC_RIGHT else "")
        lost = sum(part.leader < 0 for part in topic.partitions.values())
        if not lost:
            return None
        return f"{lost} partitions of {_STATE_TOPIC} have no leader, so nobody knows what they have"

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

    def _every_id(self) -> str:
        return "give it the right to Describe, as an administrator: " + self._acl(
            "Describe", "--transactional-id", "*"
        )

    def _without_right(self, error: KafkaError, transactional_id: str) -> KafkaError:
        if error.code != _NO_RIGHT:
            return error
        what = self._acl("Describe", "--transactional-id", transactional_id)
        return KafkaError(error.problem, code=error.code, fix=f"As an administrator: {what}")

    def _with_right(self, error: KafkaError, tp: TopicPartition) -> KafkaError:
        if error.code != _NO_TOPIC_RIGHT:
            return error
        what = self._acl("Read", "--topic", tp.topic)
        return KafkaError(error.problem, code=error.code, fix=f"As an administrator: {what}")

    def _acl(self, operation: str, kind: str, name: str) -> str:
        servers = self._properties.get("bootstrap.servers", "")
        return command(servers, principal(self._properties), [operation], [kind, name])


def offsets_partition(group: str, partitions: int) -> int:
    """Which partition of `__consumer_offsets` has a group, as GroupCoordinator.partitionFor."""
    hashed = 0
    text = group.encode("utf-16-be", "surrogatepass")
    for first, second in zip(text[::2], text[1::2], strict=True):
        hashed = (31 * hashed + (first << 8 | second)) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
