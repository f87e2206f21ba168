"""A transactional producer for one try of one batch.

Each try gets a new producer, and with it a new epoch, so that no late request of an earlier try can
add to this one's transaction or end it. Every blocking call of librdkafka is made on a thread of
its own and waited for up to a limit: sending offsets can block forever (librdkafka#5456).
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from itertools import islice
from typing import Final

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Wire

from eo_listener.kafka.client import (
    SILENT,
    SOCKET_TIMEOUT,
    STABLE,
    TIMED_OUT,
    Client,
    ConnectionErrors,
    accepted,
    answer_of,
    common,
)
from eo_listener.kafka.transaction_age import TransactionAge
from eo_listener.model.errors import KafkaError
from eo_listener.model.fault_points import reached
from eo_listener.model.offsets import Position, TopicPartition

FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Kafka's answers when another producer has the transactional id, or the broker has aborted."""

_SETTINGS: Final = {
    "retry.backoff.ms": "10",  # how soon CONCURRENT_TRANSACTIONS is asked about again
    "linger.ms": "5",
    "partitioner": "murmur2_random",  # Kafka's own; librdkafka's default is another
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "65536",  # of the driver's memory; librdkafka's default is 1 GB
}
_FIXED: Final = {
    "enable.idempotence": "true",
    "acks": "all",
    "delivery.report.only.error": True,  # else a call of Python for each record
}
_MARGIN: Final = 1.0  # seconds that a call may take beyond the timeout that it was given
_CLOSE: Final = 2.0  # seconds to wait for a producer to close
_FULL: Final = 0.05  # seconds to wait for room where the queue is full
_OFFSETS: Final = 1000  # in one request: more than 4,500 make a record that is too large
_LOCAL_SIZE: Final = "MSG_SIZE_TOO_LARGE"


class Stage(Enum):
    """How far the producer and its one transaction are."""

    NEW = auto()
    STARTING = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ENDED = auto()


class TooLargeError(Exception):
    """The client refuses a record for its size; the transaction is not affected."""


class BatchProducer:
    """Sends records and offsets in one transaction. To be used by one thread.

    Raises SettingsError for properties that librdkafka does not accept; every method but `leave`
    raises KafkaError. `transaction_timeout` is how many seconds the broker leaves the transaction
    open. `joined`: other producers will send in the same transaction, for which `identity` is read.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        transactional_id: str,
        *,
        transaction_timeout: float,
        joined: bool = False,
    ) -> None:
        self._properties = dict(properties)
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._timeout = transaction_timeout
        self._failed: Answer | None = None
        self._statistics: Mapping[str, object] = {}
        self._age: TransactionAge | None = None
        self._stuck = False
        self.stage = Stage.NEW
        milliseconds = round(transaction_timeout * 1000)
        self._producer = accepted(
            Producer,
            {
                **common({**_SETTINGS, **properties}),
                **_FIXED,
                "transaction.timeout.ms": str(milliseconds),
                # librdkafka accepts none that is longer.
                "socket.timeout.ms": str(min(1000 * SOCKET_TIMEOUT, milliseconds)),
                "transactional.id": transactional_id,
                # The only way to a producer's id and epoch; a text of some kilobytes each time.
                "statistics.interval.ms": "20" if joined else "0",
                "on_delivery": self._delivered,
                "stats_cb": self._take_statistics,
                "error_cb": self._errors.record,
                "logger": SILENT,
            },
        )

    @property
    def outlived(self) -> bool:
        """Whether the broker may have ended the transaction by itself, for its age."""
        return self._age is not None and self._age.outlived

    def take_over(self, timeout: float) -> None:
        """Fence older producers of the transactional id, and end the transaction they left open."""
        self.stage = Stage.STARTING
        self._bounded("init_transactions", self._producer.init_transactions, timeout)
        self.stage = Stage.READY

    def identity(self, timeout: float) -> tuple[int, int]:
        """Return the producer id and epoch that the broker gave it; only where it is `joined`."""
        deadline = time.monotonic() + timeout
        while True:
            self._producer.poll(0.01)
            number, epoch = (
                self._statistics.get(name) for name in ("producer_id", "producer_epoch")
            )
            if isinstance(number, int) and isinstance(epoch, int) and number >= 0:
                return number, epoch
            if time.monotonic() >= deadline:
                raise self._failure("asking for the producer's id", Answer(TIMED_OUT))

    def begin(self) -> None:
        """Begin the transaction; the broker hears of it with the first record."""
        self._age = TransactionAge(self._timeout)
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._failure("beginning the transaction", answer_of(error)) from error
        self.stage = Stage.OPEN

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: list[tuple[str, str | bytes | None]] | None = None,
        partition: int = -1,
    ) -> None:
        """Queue a record, waiting while the queue is full. Raises TooLargeError, and KafkaError."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                self._poll()
                self._require_none_failed()
                if self.outlived:  # no room in all that time: nobody takes the records
                    raise self._failure("sending records", Answer(TIMED_OUT)) from None
            except KafkaException as error:
                answer = answer_of(error)
                if answer.name() == _LOCAL_SIZE:
                    raise TooLargeError(answer.str()) from None
                raise self._failure("sending records", answer) from error
            else:
                return

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record is acknowledged; at most as long as the transaction may live."""
        left = self._left() if timeout is None else min(timeout, self._left())
        deadline = time.monotonic() + left
        while len(self._producer):
            # Not by flush(): when the producer is fenced meanwhile, it returns nothing at all.
            self._poll()
            self._require_none_failed()
            if time.monotonic() >= deadline:
                raise self._failure("sending records", Answer(TIMED_OUT))
        self._require_none_failed()

    def send_offsets(
        self, group: str, positions: Mapping[TopicPartition, Position], timeout: float
    ) -> None:
        """Commit offsets to a consumer group in this transaction."""
        client = Client(self._properties, group, role=STABLE)
        try:
            membership = client.consumer.consumer_group_metadata()
        finally:
            client.close()
        wire = iter(
            Wire(tp.topic, tp.partition, position.offset, position.metadata)
            for tp, position in positions.items()
        )
        while part := list(islice(wire, _OFFSETS)):
            call = partial(self._producer.send_offsets_to_transaction, part, membership)
            self._bounded(f"committing to group {group}", call, timeout)

    def commit(self, timeout: float) -> None:
        """Commit. Where this raises, whether the transaction was committed is unknown."""
        self.stage = Stage.COMMITTING
        self._bounded(
            "committing the transaction",
            self._producer.commit_transaction,
            timeout,
            begun=lambda: reached("sink.commit-sent"),
        )
        self.stage = Stage.ENDED

    def leave(self) -> None:
        """Close it; an open transaction stays open until the next producer of its id."""
        if self.stage is Stage.OPEN or self._stuck:
            return  # left to the garbage collector: closing would abort, or block
        # librdkafka repeats a request that has timed out. An InitProducerId that arrives after the
        # next try has begun would fence that one, so this one is closed now.
        thread = threading.Thread(target=_close, args=(self._producer,), daemon=True)
        thread.start()
        thread.join(_CLOSE)

    def _bounded(
        self,
        what: str,
        call: Callable[[float], object],
        timeout: float,
        *,
        begun: Callable[[], None] | None = None,
    ) -> None:
        """Make a call that may block on a thread of its own; `begun` is called meanwhile."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call(timeout)
            except BaseException as error:  # noqa: BLE001  # raised by the thread that waits
                raised.append(error)

        thread = threading.Thread(target=run, name="eo-listener-transaction", daemon=True)
        thread.start()
        if begun is not None:
            begun()
        thread.join(timeout + _MARGIN)
        if thread.is_alive():
            self._stuck = True
            raise self._failure(what, Answer(TIMED_OUT))
        for error in raised:
            if isinstance(error, KafkaException):
                raise self._failure(what, answer_of(error)) from error
            raise error

    def _left(self) -> float:
        return self._timeout if self._age is None else self._age.left

    def _poll(self) -> None:
        """Serve callbacks, which makes room in the queue; waits a moment for one."""
        try:
            self._producer.poll(_FULL)
        except KafkaException as error:
            raise self._failure("sending records", answer_of(error)) from error

    def _require_none_failed(self) -> None:
        if self._failed is not None:
            raise self._failure("sending records", self._failed)

    def _failure(self, what: str, answer: Answer) -> KafkaError:
        if self._failed is not None and answer.name() in {"_STATE", "_PURGE_QUEUE"}:
            answer = self._failed  # later errors only say that there was an earlier one
        try:
            self._producer.poll(0)
        except KafkaException as error:  # one that is fatal comes out of here every time
            self._errors.record(answer_of(error))
        if answer.fatal():  # what a connection has reported before is not the reason
            self._errors.fatal = answer
        return self._errors.failure(what, answer)

    def _delivered(self, error: Answer | None, _: object) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _take_statistics(self, text: str) -> None:
        self._statistics = json.loads(text).get("eos", {})


def _close(producer: Producer) -> None:
    with warnings.catch_warnings():
        # It warns where a call is under way, and fails where the producer was fenced: it is closed
        # in either case.
        warnings.simplefilter("ignore")
        with suppress(KafkaException, SystemError):
            producer.close()
