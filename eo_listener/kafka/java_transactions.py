"""Transactions that tasks join, through Spark's own kafka-clients: librdkafka cannot do this.

The formats are those of the shim's classes TransactionCalls, BatchWrites and TaskReport.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from eo_listener.client_config.producer_options import Partitioner
from eo_listener.kafka.java_groups import FORMAT, NO_JVM
from eo_listener.model.errors import JvmError, KafkaError
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.protocols import ShimClient

# Where Kafka's name and librdkafka's differ: errors have librdkafka's.
_NAMES: Final = {
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """What the coordinator answers about a transactional id; `state` as Kafka names it."""

    state: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """What a task has reported.

    `attempt` and `stage_attempt` are Spark's numbers, from 0. `records` counts what was sent, by
    partition; `refused` the rows that were not sent, by the shim's number of the reason. `error` is
    the shim's JSON of Kafka's error, None where there was none.
    """

    partition_id: int
    attempt: int
    stage_attempt: int
    records: Mapping[TopicPartition, int]
    refused: Mapping[int, int]
    error: Mapping[str, str] | None


class JavaTransactions:
    """Has Spark's tasks join transactions of one cluster, by requests to the shim.

    `properties` are a producer's, in Java's names; they hold secrets. Each method but `close`
    raises KafkaError.
    """

    def __init__(self, shim_client: ShimClient, properties: Mapping[str, str]) -> None:
        self._shim_client = shim_client
        self._properties = dict(properties)
        self._client = uuid.uuid4().hex[:12]

    def missing(self) -> str | None:
        """Name the member that kafka-clients lacks for joining a transaction; None: it has all."""
        missing: str | None = self._ask("transactions.missing", "checking kafka-clients", {})[
            "missing"
        ]
        return missing

    def unusable(self, partitioner: Partitioner) -> str | None:
        """Why a partitioner cannot choose partitions, by Java's classes; None where it can."""
        failed: str | None = self._ask(
            "rows.partitioner", "loading the partitioner", partitioner.argument()
        )["failed"]
        return failed

    def describe(self, transactional_id: str, timeout: float) -> DescribedTransaction:
        """Ask the coordinator for a transaction."""
        asked = {
            "client": self._client,
            "properties": self._properties,
            "timeoutMs": max(1, int(1000 * timeout)),
            "transactionalId": transactional_id,
        }
        answer = self._ask("transactions.describe", "describing the transaction", asked)
        return DescribedTransaction(
            state=answer["state"],
            producer_id=answer["producerId"],
            epoch=answer["epoch"],
            partitions=frozenset(
                TopicPartition(topic, number)
                for topic, numbers in answer["topics"].items()
                for number in numbers
            ),
        )

    def open_batch(
        self,
        batch: str,
        *,
        transactional_id: str,
        producer: tuple[int, int],
        topics: Sequence[tuple[str, int]],
        tasks: int,
    ) -> None:
        """Prepare the tasks of a batch, under the name `batch`.

        `producer` is the producer id and epoch to join with; `topics` are pairs of a topic and its
        number of partitions.
        """
        asked = {
            "batch": batch,
            "properties": self._properties,
            "transactionalId": transactional_id,
            "producerId": producer[0],
            "epoch": producer[1],
            "topics": topics,
            "tasks": tasks,
        }
        self._ask("rows.open", "preparing the tasks", asked)

    def reports(self, batch: str) -> tuple[int, Sequence[WrittenRows]]:
        """Return how many tasks Spark has planned for the batch, and what they have reported."""
        answer = self._ask("rows.reports", "reading what the tasks report", {"batch": batch})
        return answer["tasks"], [_report(one) for one in answer["reports"]]

    def close_batch(self, batch: str) -> None:
        """Forget the batch."""
        self._ask("rows.close", "ending the tasks", {"batch": batch})

    def close(self) -> None:
        """Close the connections."""
        with suppress(KafkaError):  # the JVM has gone, and its connections with it
            self._ask("groups.close", "closing the client", {"client": self._client})

    def _ask(self, what: str, task: str, asked: Mapping[str, Any]) -> Any:
        try:
            answer = json.loads(self._shim_client.call(what, json.dumps(asked)))
        except JvmError as error:
            raise KafkaError(f"{task} failed: {NO_JVM}", code=NO_JVM, cause=str(error)) from error
        if answer.get("v") != FORMAT:
            raise KafkaError(
                f"{task} failed: {NO_JVM}",
                code=NO_JVM,
                cause="the jar given to Spark is of another version than this package",
            )
        if "error" in answer:
            raise failure(task, answer["error"])
        return answer


def failure(task: str, error: Mapping[str, str]) -> KafkaError:
    """Return the KafkaError for `error`, the shim's JSON: its `code` and `cause`."""
    code = _NAMES.get(error["code"], error["code"])
    return KafkaError(f"{task} failed: {code}", code=code, cause=error["cause"])


def _report(given: Mapping[str, Any]) -> WrittenRows:
    return WrittenRows(
        partition_id=given["partition"],
        attempt=given["attempt"],
        stage_attempt=given["stageAttempt"],
        records={
            TopicPartition(topic, int(number)): count
            for topic, counts in given["records"].items()
            for number, count in counts.items()
        },
        refused={int(reason): count for reason, count in given["refused"].items()},
        error=given["error"],
    )
