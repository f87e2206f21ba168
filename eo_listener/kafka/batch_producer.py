"""A transactional producer for one batch: made for it, and let go of after it.

A fresh one for each try gets a fresh epoch, so that no request of an earlier try, however late, can
end or fill this one's transaction. Every call of librdkafka that waits is made on a thread of its
own and waited for within bounds: sending offsets can block forever (librdkafka#5456).
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
    STABLE,
    TIMED_OUT,
    Client,
    ConnectionErrors,
    accepted,
    answer_of,
    common,
)
from eo_listener.model.errors import KafkaError
from eo_listener.model.fault_points import reached
from eo_listener.model.offsets import Position, TopicPartition

FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Another producer has the transactional id now, or the broker has ended the transaction."""

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
_MARGIN: Final = 1.0  # seconds that a call may return later than it was asked to
_CLOSE: Final = 2.0
_FULL: Final = 0.05
_OFFSETS: Final = 1000  # in one request: more than 4,500 make a record that is too large
_LOCAL_SIZE: Final = "MSG_SIZE_TOO_LARGE"


class Stage(Enum):
    """How far the transaction is."""

    NEW = auto()
    STARTING = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ENDED = auto()


class TooLargeError(Exception):
    """The client takes no record of this size; the transaction is as it was."""


class BatchProducer:
    """Sends records and offsets in one transaction. For one thread, but for its own.

    Raises SettingsError for properties that librdkafka does not accept; every method raises
    KafkaError. `transaction_timeout` is how many seconds the broker leaves the transaction open.
    `joined`: other producers are to send in the same transaction.
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
        self._begun: tuple[float, float] | None = None
        self._stuck = False
        self.stage = Stage.NEW
        self._producer = accepted(
            Producer,
            {
                **common({**_SETTINGS, **properties}),
                **_FIXED,
                "transaction.timeout.ms": str(round(transaction_timeout * 1000)),
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
        """Whether the broker may have ended the transaction by itself, for its age.

        Both clocks are asked: the monotonic one stands still while the machine sleeps.
        """
        if self._begun is None:
            return False
        monotonic, wall = self._begun
        age = max(time.monotonic() - monotonic, time.time() - wall)
        return age > self._timeout * 0.9

    def take_over(self, timeout: float) -> None:
        """Fence whoever had the transactional id before, and end what it left open."""
        self.stage = Stage.STARTING
        self._bounded("init_transactions", self._producer.init_transactions, timeout)
        self.stage = Stage.READY

    def identity(self, timeout: float) -> tuple[int, int]:
        """Its producer id and epoch, as the broker has given them; only where it is `joined`."""
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
        self._begun = time.monotonic(), time.time()
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
        """Send a record, sooner or later. Raises TooLargeError, and KafkaError."""
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
        """Commit. Whatever it raises: what became of the transaction is not known."""
        self.stage = Stage.COMMITTING
        self._bounded(
            "committing the transaction",
            self._producer.commit_transaction,
            timeout,
            begun=lambda: reached("sink.commit-sent"),
        )
        self.stage = Stage.ENDED

    def leave(self) -> None:
        """Let go of the connections; what is open stays so until the next one of its id."""
        if self.stage is Stage.OPEN or self._stuck:
            return  # to the garbage collector: closing would abort, or wait
        # One whose call has timed out repeats its request unasked. An InitProducerId that comes
        # through when the next try has begun would fence that.
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
        """Make a call that may wait, or never return, on a thread of its own."""
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
        if self._begun is None:
            return self._timeout
        return max(0.0, self._begun[0] + self._timeout - time.monotonic())

    def _poll(self) -> None:
        """Serve callbacks, which is how records leave the queue; wait a moment for one."""
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
