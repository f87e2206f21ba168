"""Sends transaction requests that librdkafka lacks, through Spark's own kafka-clients.

Some requests serve the transactions that tasks join; the others find any producer's open
transactions. The shim's classes TransactionCalls, BatchWrites and TaskReport define the formats of
requests and answers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from eo_listener.client_config.kafka_options import Partitioner
from eo_listener.errors import JvmError, KafkaError
from eo_listener.kafka.client import chunks
from eo_listener.kafka.java_groups import NO_JVM, by_topic
from eo_listener.model.protocols import ShimClient
from eo_listener.model.shim_answers import read_answer
from eo_listener.offsets import TopicPartition

ONGOING: Final = "Ongoing"
_ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_NO_TIMEOUT_MS: Final = 2**31 - 1  # TransactionMetadata.isDistributedTwoPhaseCommitTxn
# The most in one request: a leader lists all producers of a partition, also idempotent producers.
_PARTITIONS: Final = 10
_IDS: Final = 500
_CHARACTERS: Final = 1_000_000  # the shim's reader of JSON takes texts of at most 20 million
_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
# Error names that differ between Kafka and librdkafka. Errors raised here have librdkafka's names.
_NAMES: Final = {
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """The coordinator's answer about a transactional id; `state` is Kafka's name of the id's state.

    `timeout` is in seconds. `started` is the time when the id's newest transaction began, in
    milliseconds since 1970, or None if there was no transaction. The newest transaction may have
    ended.
    """

    state: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    timeout: float
    started: int | None

    @property
    def two_phase(self) -> bool:
        """True if only the program that began the transaction may end it (KIP-939).

        That program may have to commit the transaction.
        """
        return self.timeout >= _NO_TIMEOUT_MS / 1000

    @property
    def ongoing(self) -> bool:
        """True if a transaction is open, and nobody has begun to end it."""
        return self.state == ONGOING

    @property
    def ending(self) -> bool:
        """True if a transaction is committed or aborted, and its markers are being written."""
        return self.state in _ENDING

    @property
    def state_known(self) -> bool:
        """True if Java's client knows `state`.

        Java's client reports a state that it does not know as Unknown.
        """
        return self.ongoing or self.ending or self.state in _OVER


class OpenProducer(NamedTuple):
    """A producer that has a transaction open in a partition, as the partition's leader reports.

    `start` is the transaction's first offset in the partition. `last_sequence` counts the
    producer's records; `last_written` is the time of the last record, in milliseconds since 1970,
    by the producer's clock or the broker's clock, depending on the topic's settings.
    """

    producer_id: int
    epoch: int
    start: int
    last_sequence: int
    last_written: int

    def is_same(self, reading: OpenProducer) -> bool:
        """Return True if `reading` shows the same transaction, even with more records."""
        return (self.producer_id, self.start) == (reading.producer_id, reading.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransactions:
    """The coordinators' answers about transactional ids, and errors for ids without an answer."""

    by_id: Mapping[str, DescribedTransaction] = field(default_factory=dict)
    errors: Mapping[str, KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProducers:
    """By partition: the producers with open transactions, and errors of unreadable partitions."""

    by_partition: Mapping[TopicPartition, tuple[OpenProducer, ...]]
    errors: Mapping[TopicPartition, KafkaError]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """A task's report: the number of records that it has sent, or why it did not send all of them.

    `attempt` and `stage_attempt` are Spark's numbers, which begin at 0. `records` counts the sent
    records by partition. `refused` counts the rows that the task did not send, by the shim's number
    for the reason. `error` is the shim's JSON of Kafka's error, if any.
    """

    partition_id: int
    attempt: int
    stage_attempt: int
    records: Mapping[TopicPartition, int]
    refused: Mapping[int, int] = field(default_factory=dict)
    error: Mapping[str, str] | None = None


class JoinedTransaction(NamedTuple):
    """The transaction of the driver's producer, which the tasks' producers join."""

    transactional_id: str
    producer_id: int
    epoch: int


class JavaTransactions:
    """Reads and joins the transactions of one cluster, by requests to the shim.

    `properties` are the properties of a producer, under their Java names; they contain secrets.
    Every method except `close` may raise KafkaError.
    """

    def __init__(self, shim_client: ShimClient, properties: Mapping[str, str]) -> None:
        self._shim_client = shim_client
        self._properties = dict(properties)
        self._client = uuid.uuid4().hex[:12]

    def missing(self) -> str | None:
        """Return the Java method or field for joining that kafka-clients lacks, or None."""
        answer = self._ask("transactions.missing", "checking kafka-clients", {})
        missing: str | None = answer["missing"]
        return missing

    def unusable(self, partitioner: Partitioner) -> str | None:
        """Create a partitioner in Java; return the exceptions that Java throws, or None."""
        failed: str | None = self._ask(
            "rows.partitioner", "loading the partitioner", partitioner.argument()
        )["failed"]
        return failed

    def describe(self, transactional_id: str, timeout: float) -> DescribedTransaction:
        """Ask the coordinator about a transactional id."""
        answer = self.describe_all([transactional_id], timeout)
        for error in answer.errors.values():
            raise error
        return answer.by_id[transactional_id]

    def describe_all(
        self, transactional_ids: Collection[str], timeout: float
    ) -> DescribedTransactions:
        """Ask the coordinators about transactional ids, a few hundred in each request."""
        action = "describing the transaction"
        transactions: dict[str, DescribedTransaction] = {}
        errors: dict[str, KafkaError] = {}
        for ids in chunks(transactional_ids, _IDS):
            request = {**self._opening(timeout), "transactionalIds": ids}
            answer = self._ask("transactions.describe", action, request)
            transactions |= {name: _transaction(d) for name, d in answer["described"].items()}
            errors |= {name: failure(action, error) for name, error in answer["errors"].items()}
        return DescribedTransactions(by_id=transactions, errors=errors)

    def open_producers(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> OpenProducers:
        """Ask leaders for producers with open transactions, for 10 partitions in each request."""
        action = "reading the producers of partitions"
        producers: dict[TopicPartition, tuple[OpenProducer, ...]] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for part in chunks(partitions, _PARTITIONS):
            request = {**self._opening(timeout), "topics": by_topic(part)}
            answer = self._ask("transactions.producers", action, request)
            for topic, rows in answer["open"].items():
                for number, *row in rows:
                    tp = TopicPartition(topic, number)
                    producers[tp] = (*producers.get(tp, ()), OpenProducer(*row))
            errors |= {
                TopicPartition(topic, int(number)): failure(f"{action} of topic {topic}", error)
                for topic, failed in answer["errors"].items()
                for number, error in failed.items()
            }
        return OpenProducers(by_partition=producers, errors=errors)

    def transactional_ids(self, producer_ids: Collection[int], timeout: float) -> Mapping[int, str]:
        """Ask all coordinators for producers' transactional ids, a few hundred in each request.

        Kafka silently leaves out ids that this client has no right to describe.
        """
        ids: dict[int, str] = {}
        for part in chunks(sorted(producer_ids), _IDS):
            request = {**self._opening(timeout), "producers": part}
            ids |= dict(self._ask("transactions.list", "listing transactions", request)["listed"])
        return ids

    def open_batch(
        self,
        batch: str,
        *,
        topics: Sequence[tuple[str, int]],
        tasks: int,
        transaction: JoinedTransaction | None,
    ) -> None:
        """Give the shim the facts that tasks need to write a batch; `batch` is the batch's name.

        `topics` are pairs of a topic and its number of partitions. The tasks' producers join
        `transaction`, if there is one.
        """
        request = {"batch": batch, "properties": self._properties, "topics": topics, "tasks": tasks}
        if transaction is not None:
            name, producer_id, epoch = transaction
            request |= {"transactionalId": name, "producerId": producer_id, "epoch": epoch}
        self._ask("rows.open", "preparing the tasks", request)

    def leave_out(self, batch: str, identities: Iterable[str]) -> None:
        """Give the shim the identities of rows that the tasks must not send, as written in headers.

        The method makes several calls, each with about a megabyte of identities. Spark passes all
        identities to each task.
        """
        for part in _parts(identities):
            request = {"batch": batch, "identities": part}
            self._ask("rows.there", "sending the identities of existing rows", request)

    def is_running(self, batch: str) -> bool:
        """Return True if Spark reports a running task of a batch without a transaction.

        A task on an executor that Spark has lost counts as ended.
        """
        answer = self._ask("rows.reports", "listing the running tasks", {"batch": batch})
        return bool(answer["running"])

    def reports(self, batch: str) -> tuple[int, Sequence[TaskReport]]:
        """Return the number of tasks that Spark has planned for the batch, and their reports."""
        answer = self._ask("rows.reports", "reading what the tasks report", {"batch": batch})
        return answer["tasks"], [_report(report) for report in answer["reports"]]

    def close_batch(self, batch: str) -> None:
        """Have the shim forget the batch `batch`."""
        self._ask("rows.close", "ending the tasks", {"batch": batch})

    def close(self) -> None:
        """Close the connections."""
        with suppress(KafkaError):  # the JVM has gone, and its connections with it
            self._ask("groups.close", "closing the client", {"client": self._client})

    def _opening(self, timeout: float) -> dict[str, Any]:
        """Return the part of a request that names the client, its properties and the time limit."""
        limit = max(1, int(1000 * timeout))
        return {"client": self._client, "properties": self._properties, "timeoutMs": limit}

    def _ask(self, call: str, action: str, request: Mapping[str, Any]) -> Any:
        try:
            answer = read_answer(self._shim_client.call(call, json.dumps(request)))
        except JvmError as error:
            raise KafkaError(f"{action} failed: {NO_JVM}", code=NO_JVM, cause=str(error)) from error
        if "error" in answer:
            raise failure(action, answer["error"])
        return answer


def failure(action: str, error: Mapping[str, str]) -> KafkaError:
    """Return the KafkaError for `error`, the shim's JSON with a `code` and a `cause`."""
    code = _NAMES.get(error["code"], error["code"])
    return KafkaError(f"{action} failed: {code}", code=code, cause=error["cause"])


def _parts(identities: Iterable[str]) -> Iterator[str]:
    """Yield texts of about a megabyte each, with one identity on each line."""
    part: list[str] = []
    size = 0
    for identity in identities:
        part.append(identity)
        size += len(identity)
        if size >= _CHARACTERS:
            yield "\n".join(part)
            part, size = [], 0
    if part:
        yield "\n".join(part)


def _transaction(document: Mapping[str, Any]) -> DescribedTransaction:
    return DescribedTransaction(
        state=document["state"],
        producer_id=document["producerId"],
        epoch=document["epoch"],
        partitions=frozenset(
            TopicPartition(topic, number)
            for topic, numbers in document["topics"].items()
            for number in numbers
        ),
        timeout=document["timeoutMs"] / 1000,
        started=document["startedAt"],
    )


def _report(document: Mapping[str, Any]) -> TaskReport:
    return TaskReport(
        partition_id=document["partition"],
        attempt=document["attempt"],
        stage_attempt=document["stageAttempt"],
        records={
            TopicPartition(topic, int(number)): count
            for topic, counts in document["records"].items()
            for number, count in counts.items()
        },
        refused={int(reason): count for reason, count in document["refused"].items()},
        error=document["error"],
    )
