"""Chooses how the rows of each batch reach Kafka: by the executors, or through the driver."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from eo_listener.errors import SettingsError
from eo_listener.sinks.kafka.driver_writer import DriverWriter
from eo_listener.sinks.kafka.executor_writer import (
    BY_EXECUTORS,
    UNFENCED,
    ExecutorWriter,
    joining,
    missing_members,
    task_count,
)
from eo_listener.sinks.kafka.task_rows import TaskRows, end_timeout, unfenced_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eo_listener.kafka.java_transactions import JavaTransactions
    from eo_listener.model.planned_batch import PlannedBatch
    from eo_listener.sinks.kafka.arguments import WriteMethod
    from eo_listener.sinks.kafka.connection import ConnectionSettings
    from eo_listener.sinks.kafka.transaction import RowWriter

_NO_CLASSES: Final = "rows go through the driver, whose client cannot load Java classes"

logger = logging.getLogger("eo_listener")


class MethodChoice:
    """Makes the writers for the batches of one sink.

    `by_executors` is True while the executors send the rows. Raises SettingsError for options that
    a write method cannot use.
    """

    def __init__(
        self,
        write_method: WriteMethod,
        access: ConnectionSettings,
        *,
        label: str,
        one_topic: bool,
        transactions: bool = True,
    ) -> None:
        self.by_executors = write_method == "executors"
        self._access = access
        if not transactions:
            self._refuse_partitioner(
                "with transactions=False",
                cause="a repeated batch keeps its order only if each row goes to the same "
                "partition again",
            )
        elif not self.by_executors:
            self._refuse_partitioner(
                'with write_method="driver"',
                cause=_NO_CLASSES,
                instead='Use write_method="executors"',
            )
        self._label = label
        self._one_topic = one_topic
        self._joined: JavaTransactions | None = None

    def writer(self, frame: Any, plan: PlannedBatch) -> RowWriter:
        """Return the object that writes the rows of `frame` in a transaction, for one attempt.

        Raises SettingsError, and KafkaError if an answer of the JVM cannot be read.
        """
        joined = self._transactions(frame) if self.by_executors else None
        if joined is None:
            return DriverWriter(frame, plan, one_topic=self._one_topic)
        return ExecutorWriter(
            frame,
            joined,
            one_topic=self._one_topic,
            timeout=self._access.timeout,
            partitioner=self._access.partitioner,
        )

    def task_rows(self, frame: Any, plan: PlannedBatch, identity: Sequence[str] | None) -> TaskRows:
        """Return the object that writes the rows of `frame` without a transaction, for one attempt.

        Raises the errors of `writer`, and SettingsError for unsuitable columns.
        """
        if self._joined is None:
            transactions = joining(frame, unfenced_properties(self._access.java), UNFENCED)
            missing_members(transactions, UNFENCED)  # only the shim is needed
            self._joined = transactions
        return TaskRows(
            frame,
            plan,
            self._joined,
            label=self._label,
            one_topic=self._one_topic,
            identity=identity,
            tasks=task_count(frame),
            timeout=end_timeout(self._access.java, self._access.timeout),
        )

    def close(self) -> None:
        """Close Java's connections."""
        if self._joined is not None:
            self._joined.close()
            self._joined = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_joined": None}

    def _transactions(self, frame: Any) -> JavaTransactions | None:
        """Return the client for tasks that join transactions; None if kafka-clients cannot join."""
        if self._joined is not None:
            return self._joined
        transactions = joining(frame, self._access.java, BY_EXECUTORS)
        missing, partitioner = missing_members(transactions, BY_EXECUTORS), self._access.partitioner
        if missing is None:
            unusable = None if partitioner is None else transactions.unusable(partitioner)
            if unusable is not None:
                self._refuse_partitioner(
                    f"({unusable})",
                    cause="it must be a Kafka Partitioner with a public constructor without "
                    "arguments, in a jar passed to Spark with spark.jars or --jars",
                    instead="Pass its jar to Spark",
                )
            self._joined = transactions
            return transactions
        self._refuse_partitioner(
            f"with the kafka-clients of Spark's connector ({missing})",
            cause=_NO_CLASSES,
            instead="Use a connector with a suitable kafka-clients",
        )
        self.by_executors = False
        logger.warning(
            "%s: rows go through the driver: the kafka-clients of Spark's connector do not "
            "support joining a transaction from a task (%s)",
            self._label,
            missing,
        )
        return None

    def _refuse_partitioner(self, context: str, *, cause: str, instead: str | None = None) -> None:
        if self._access.partitioner is not None:
            remove = "emove the option, and give the rows a column partition"
            raise SettingsError(
                f"kafka.partitioner.class cannot be used {context}",
                cause=cause,
                fix=f"R{remove}" if instead is None else f"{instead}; or r{remove}",
            )
