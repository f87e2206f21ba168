"""Sends records, with or without a transaction, and commits offsets in transactions.

librdkafka's blocking calls for a transaction run on separate threads: sending offsets can block
forever (librdkafka#5456, #5511).

- `BatchProducer` serves one try of one batch. Each try gets a new producer with a new epoch, so
  that no late request of an earlier try can add to the new transaction or end it.
- `OffsetProducer` makes one transaction after another. If a call has timed out, the next call
  resumes it on the same producer, and librdkafka continues. A new producer is opened only if the
  old one is unusable.
"""

from __future__ import annotations

import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException, Producer

from eo_listener.errors import KafkaError
from eo_listener.kafka.client import (
    SILENT,
    SOCKET_TIMEOUT,
    STABLE,
    TIMED_OUT,
    Client,
    ConnectionErrors,
    answer_of,
    chunks,
    new_client,
    seconds_until,
    to_wire,
    with_defaults,
)
from eo_listener.kafka.simple_groups import Ownership
from eo_listener.model.fault_points import fault_point
from eo_listener.offsets import Position, TopicPartition

FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Kafka's errors if another producer has the id, or the broker has aborted the transaction."""

# With the default of 100 ms, every transaction takes at least 100 ms: the broker, still busy with
# the last transaction, answers CONCURRENT_TRANSACTIONS, and librdkafka waits before it repeats the
# request.
_RETRY: Final = {"retry.backoff.ms": "10"}
_SETTINGS: Final = {
    **_RETRY,
    "reconnect.backoff.ms": "10",  # librdkafka tries a second broker after half of it
    "linger.ms": "5",
    "partitioner": "murmur2_random",  # Kafka's own; librdkafka's default differs
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "65536",  # of the driver's memory; librdkafka's default is 1 GB
}
_FIXED: Final = {
    "enable.idempotence": "true",
    "acks": "all",
    "delivery.report.only.error": True,  # otherwise librdkafka calls Python for each record
}
_DELIVERY: Final = {"delivery.timeout.ms": "120000"}  # Java's default; librdkafka's is 5 minutes
_CONSEQUENCES: Final = frozenset({"_STATE", "_PURGE_QUEUE", "_GAPLESS_GUARANTEE"})
"""The errors that only result from an earlier error, of the transaction or of another record."""
_CLOSE: Final = 2.0  # seconds to wait for a producer to close
_MOMENT: Final = 0.05  # seconds to wait for room in the queue, or until it is empty
_ASK: Final = 1.0  # seconds for an answer with metadata, before the first record is sent
_REPORT: Final = 1.0  # seconds to wait for the report of a record that has failed already
_MARGIN: Final = 1.0  # seconds that a call may take beyond the timeout that it was given
_METADATA: Final = 0.5  # seconds for an answer with metadata, while a coordinator is looked for
_PAUSE: Final = 0.01  # seconds between two such requests
_POLL: Final = 0.5  # seconds between two polls for librdkafka's reports
_OFFSETS: Final = 1000  # offsets in one request: more than 4,500 make the record too large
_TRANSACTIONAL: Final = {
    "transaction.timeout.ms": "60000",  # librdkafka's default; every broker accepts it by default
    **_RETRY,
}
_SEND: Final = 4.0  # seconds to send: librdkafka looks for an unknown topic for so long
_YOUNG: Final = 60.0  # seconds; no request is expected to be delayed for longer
_LOCAL_SIZE: Final = "MSG_SIZE_TOO_LARGE"
_SIZE: Final = "it is larger than kafka.max.request.size (1,000,000 bytes by default)"
_QUEUE: Final = "it is larger than kafka.buffer.memory (67,108,864 bytes by default)"


class TooLargeError(Exception):
    """Raised if the client refuses a record because of its size. The text names the limit.

    Records that were sent earlier are not affected.
    """


class KafkaProducer:
    """The base class of the producers.

    The user's `properties` override `defaults`, and `fixed` overrides both.

    Raises SettingsError for properties that librdkafka does not accept.
    """

    def __init__(
        self, properties: Mapping[str, str], defaults: Mapping[str, str], fixed: Mapping[str, Any]
    ) -> None:
        self.connection_errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._producer = new_client(
            Producer,
            {
                **with_defaults({**defaults, **properties}),
                **fixed,
                "error_cb": self.connection_errors.record,
                "logger": SILENT,
            },
        )

    def poll(self) -> None:
        """Run librdkafka's waiting callbacks."""
        try:
            self._producer.poll(0)
        except KafkaException as error:  # every poll raises a fatal error again
            self.connection_errors.record(answer_of(error))

    def leave(self) -> None:
        """Close the connections, within a few seconds."""
        thread = threading.Thread(target=_close, args=(self._producer,), daemon=True)
        thread.start()
        thread.join(_CLOSE)


class RecordProducer(KafkaProducer):
    """Sends records. Only one thread may use it.

    Every method except `leave` may raise KafkaError. If a record could not be delivered, a later
    call raises the error.
    """

    def __init__(self, properties: Mapping[str, str], fixed: Mapping[str, Any]) -> None:
        self._failed: Answer | None = None
        fixed = {**_FIXED, **fixed, "on_delivery": self._on_delivery}
        super().__init__(properties, _SETTINGS, fixed)

    @property
    def outlived(self) -> bool:
        """True if sending has taken longer than its time limit."""
        return False

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
        was_empty = False
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                if was_empty:  # the queue was empty: there will never be more room
                    raise TooLargeError(_QUEUE) from None
                self._send_queued()
                was_empty = len(self._producer) == 0
                self._require_none_failed()
                if self.outlived:  # no room for as long as the transaction may last
                    raise self._failure("sending records", Answer(TIMED_OUT)) from None
            except KafkaException as error:
                answer = answer_of(error)
                if answer.name() == _LOCAL_SIZE:
                    raise TooLargeError(_SIZE) from None
                # A record that brokers refuse ends the transaction; librdkafka then accepts no
                # more records. What the next poll reports or raises is the reason.
                try:
                    self._producer.poll(_MOMENT)
                except (KafkaException, SystemError) as reason:
                    answer = answer_of(_kafka_exception(reason))
                self._require_none_failed()
                raise self._failure("sending records", answer) from error
            else:
                return

    def send_each(
        self, topic: str, values: Iterable[bytes | str | None], keys: Iterable[bytes | str | None]
    ) -> dict[int, str]:
        """Send a record for each value and its key, twice as fast as with calls of `send`.

        Returns the reasons why the client refused records, by the index of the record. Raises
        KafkaError.
        """
        refused: dict[int, str] = {}
        produce = self._producer.produce
        for place, (value, key) in enumerate(zip(values, keys, strict=True)):
            try:
                produce(topic, value, key)
            except (BufferError, KafkaException):
                try:
                    self.send(topic, value, key=key)
                except TooLargeError as error:
                    refused[place] = str(error)
        return refused

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or one fails, for at most `timeout` seconds."""
        seconds = self._seconds_left() if timeout is None else min(timeout, self._seconds_left())
        deadline = time.monotonic() + seconds
        while len(self._producer):
            self._send_queued()
            self._require_none_failed()
            if time.monotonic() >= deadline:
                raise self._failure("sending records", Answer(TIMED_OUT))
        self._require_none_failed()

    def _seconds_left(self) -> float:
        """Return the time to wait for sent records: infinite, as each record has a time-out."""
        return math.inf

    def _send_queued(self) -> None:
        """Send queued records at once, whatever `linger.ms` is; run waiting callbacks."""
        try:
            self._producer.flush(_MOMENT)
        except (KafkaException, SystemError) as error:
            raise self._failure("sending records", answer_of(_kafka_exception(error))) from error

    def _require_none_failed(self) -> None:
        if self._failed is not None:
            raise self._failure("sending records", self._failed)

    def _failure(self, action: str, answer: Answer) -> KafkaError:
        self.poll()
        if answer.fatal():  # an earlier report of a connection is not the reason
            self.connection_errors.fatal = answer
        error = self.connection_errors.failure(action, answer)
        if error.code not in _CONSEQUENCES or (first := self._root_cause()) is None:
            return error
        self.connection_errors.fatal = None
        return self.connection_errors.failure(action, first)

    def _root_cause(self) -> Answer | None:
        """Return the root cause of a failure, or None if it is unknown."""
        return self._failed

    def _on_delivery(self, error: Answer | None, _: object) -> None:
        if error is not None and self._failed is None:
            self._failed = error


class IdempotentProducer(RecordProducer):
    """A producer without transactions. Sent records cannot be aborted, and it fences no producer.

    If a record cannot be delivered, no later record is delivered either.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__({**_DELIVERY, **properties}, {"enable.gapless.guarantee": "true"})

    def connect(self, topic: str) -> None:
        """Request the metadata of an existing topic, so that the first record is sent sooner.

        A new client requests its producer id when metadata arrives, or half a second later. The
        first metadata may arrive before the client is ready for it, so this method requests it
        twice. Records can also be sent without this call.
        """
        with suppress(KafkaException):
            for _ in range(2):
                self._producer.list_topics(topic, timeout=_ASK)

    def leave(self) -> None:
        """Close the connections, and drop the records in the queue."""
        with suppress(KafkaException):
            self._producer.purge()
        super().leave()

    def _root_cause(self) -> Answer | None:
        """Return the first failed record's error, which the client may report after others."""
        deadline = time.monotonic() + _REPORT
        while self._failed is None and len(self._producer) and time.monotonic() < deadline:
            with suppress(KafkaException):
                self._producer.poll(_MOMENT)
        return self._failed


def _kafka_exception(error: BaseException) -> KafkaException:
    """Return the KafkaException in `error`; a SystemError wraps it if another callback ran."""
    while not isinstance(error, KafkaException):
        if error.__cause__ is None:
            raise error
        error = error.__cause__
    return error


def _close(producer: Producer) -> None:
    with warnings.catch_warnings():
        # `close` warns if a call is in progress, and fails if the producer was fenced; it closes
        # the producer in both cases.
        warnings.simplefilter("ignore")
        with suppress(KafkaException, SystemError):
            producer.close()


@dataclass(frozen=True, slots=True)
class TransactionAge:
    """Measures the age of a transaction that begins when this object is created.

    `timeout` is in seconds. The object uses the monotonic clock and the system's clock, since the
    monotonic clock stands still while the machine sleeps.
    """

    timeout: float
    _monotonic: float = field(default_factory=time.monotonic)
    _wall: float = field(default_factory=time.time)

    @property
    def outlived(self) -> bool:
        """True after nine tenths of the time-out: the broker may have aborted the transaction.

        The broker then gives the same answer as if another producer had fenced this producer.
        """
        age = max(time.monotonic() - self._monotonic, time.time() - self._wall)
        return age > self.timeout * 0.9

    @property
    def remaining(self) -> float:
        """The seconds until the transaction's time-out."""
        return max(0.0, self._monotonic + self.timeout - time.monotonic())


class Stage(Enum):
    """The stage of a producer and its transaction."""

    NEW = auto()
    STARTING = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ENDED = auto()
    DEAD = auto()


class BatchProducer(RecordProducer):
    """Sends records and offsets in one transaction. Only one thread may use it.

    Raises SettingsError for properties that librdkafka does not accept. Every method except `leave`
    may raise KafkaError. After `transaction_timeout` seconds, the broker aborts a transaction that
    is still open. `joined` is True if other producers will send in the same transaction; those
    producers need this producer's `identity`.
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
        self._timeout = transaction_timeout
        self._statistics: Mapping[str, object] = {}
        self._is_known = False
        self._age: TransactionAge | None = None
        self._stuck = False
        self.stage = Stage.NEW
        milliseconds = round(transaction_timeout * 1000)
        super().__init__(
            properties,
            {
                "transaction.timeout.ms": str(milliseconds),
                # librdkafka accepts no value above the transaction's time-out.
                "socket.timeout.ms": str(min(1000 * SOCKET_TIMEOUT, milliseconds)),
                "transactional.id": transactional_id,
                # The only way to get a producer's id and epoch: a text of a few kilobytes each.
                "statistics.interval.ms": "20" if joined else "0",
                "stats_cb": self._take_statistics,
            },
        )

    @property
    def outlived(self) -> bool:
        """True if the broker may have ended the transaction because of its age."""
        return self._age is not None and self._age.outlived

    def take_over(self, timeout: float, *, topic: str | None = None) -> None:
        """Fence older producers of the transactional id, and end the transaction they left open.

        librdkafka looks for the coordinator at once, before it has a connection. It looks again
        whenever metadata arrives, and every 500 ms (rd_kafka_idemp_pid_fsm). After
        CONCURRENT_TRANSACTIONS it repeats its request at the same moments. To shorten the wait,
        this method keeps requesting the metadata of `topic`, which must exist.
        """
        self.stage = Stage.STARTING
        done = threading.Event()

        def init(seconds: float) -> None:
            try:
                self._producer.init_transactions(seconds)
            finally:
                done.set()

        ask = None if topic is None else partial(self._ask_until, done, topic, timeout)
        self._bounded("init_transactions", init, timeout, meanwhile=ask)
        self.stage = Stage.READY

    def identity(self, timeout: float) -> tuple[int, int]:
        """Return the assigned producer id and epoch. Call it only if the producer is `joined`."""
        deadline = time.monotonic() + timeout
        while True:
            self._producer.poll(0.01)
            number, epoch = (
                self._statistics.get(name) for name in ("producer_id", "producer_epoch")
            )
            if isinstance(number, int) and isinstance(epoch, int) and number >= 0:
                self._is_known = True
                return number, epoch
            if time.monotonic() >= deadline:
                raise self._failure("reading the producer's id", Answer(TIMED_OUT))

    @contextmanager
    def polled(self) -> Iterator[None]:
        """Poll on another thread while the block runs, to take librdkafka's reports.

        Otherwise librdkafka would store a text of a few kilobytes every 20 ms for a `joined`
        producer.
        """
        over = threading.Event()

        def poll() -> None:
            while not over.wait(_POLL):
                # Every later call raises a fatal error again.
                with suppress(KafkaException, SystemError):
                    self._producer.poll(0)

        thread = threading.Thread(target=poll, name="eo-listener-statistics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def begin(self) -> None:
        """Begin the transaction. The broker learns of the transaction with the first record."""
        self._age = TransactionAge(self._timeout)
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._failure("beginning the transaction", answer_of(error)) from error
        self.stage = Stage.OPEN

    def send_offsets(
        self, group: str, positions: Mapping[TopicPartition, Position], timeout: float
    ) -> None:
        """Commit offsets to a consumer group in this transaction."""
        with closing(Client(self._properties, group, role=STABLE)) as client:
            membership = client.consumer.consumer_group_metadata()
        for part in chunks(to_wire(positions), _OFFSETS):
            call = partial(self._producer.send_offsets_to_transaction, part, membership)
            self._bounded(f"committing to group {group}", call, timeout)

    def commit(self, timeout: float) -> None:
        """Commit the transaction. If this method raises an error, the outcome is unknown."""
        self.stage = Stage.COMMITTING
        self._bounded(
            "committing the transaction",
            self._producer.commit_transaction,
            timeout,
            meanwhile=lambda: fault_point("sink.commit-sent"),
        )
        self.stage = Stage.ENDED

    def leave(self) -> None:
        """Close the producer.

        An open transaction stays open until another producer takes over the id.
        """
        if self.stage is Stage.OPEN or self._stuck:
            return  # left to the garbage collector: closing would abort, or block
        # librdkafka repeats a request that has timed out. An InitProducerId that arrives after the
        # next try has begun would fence that try's producer, so this producer is closed now.
        super().leave()

    def _ask_until(self, done: threading.Event, topic: str, timeout: float) -> None:
        """Request metadata repeatedly until `done` is set, for `timeout` seconds at most."""
        deadline = time.monotonic() + timeout
        while not done.is_set() and (seconds := deadline - time.monotonic()) > 0:
            with suppress(KafkaException):
                self._producer.list_topics(topic, timeout=min(seconds, _METADATA))
            done.wait(_PAUSE)

    def _bounded(
        self,
        action: str,
        call: Callable[[float], object],
        timeout: float,
        *,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Run `call`, which may block, on another thread, and `meanwhile` on this thread."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call(timeout)
            except BaseException as error:  # noqa: BLE001  # raised by the thread that waits
                raised.append(error)

        thread = threading.Thread(target=run, name="eo-listener-transaction", daemon=True)
        thread.start()
        if meanwhile is not None:
            meanwhile()
        thread.join(timeout + _MARGIN)
        if thread.is_alive():
            self._stuck = True
            raise self._failure(action, Answer(TIMED_OUT))
        for error in raised:
            if isinstance(error, KafkaException):
                raise self._failure(action, answer_of(error)) from error
            raise error

    def _root_cause(self) -> Answer | None:
        """Return the transaction's error, or else the error of a record.

        A record's error concerns only that record.

        If a partition cannot join the transaction, librdkafka purges all records, and the next call
        for the transaction raises the reason. So this method makes such a call, which needs no
        broker.
        """
        if self.stage is Stage.OPEN:
            try:
                self._producer.begin_transaction()
            except KafkaException as error:
                if answer_of(error).name() != "_STATE":  # else it is open, without error
                    return answer_of(error)
        return super()._root_cause()

    def _seconds_left(self) -> float:
        return self._timeout if self._age is None else self._age.remaining

    def _take_statistics(self, text: str) -> None:
        if not self._is_known:
            self._statistics = json.loads(text).get("eos", {})


class OffsetProducer(KafkaProducer):
    """Commits offsets to one group in transactions. The constructor raises SettingsError.

    Only one thread may use the object: to start a transaction, to wait for its end, and to read its
    `error`.
    """

    def __init__(
        self, properties: Mapping[str, str], transactional_id: str, ownership: Ownership
    ) -> None:
        super().__init__(properties, _TRANSACTIONAL, {"transactional.id": transactional_id})
        timeout = properties.get("transaction.timeout.ms", _TRANSACTIONAL["transaction.timeout.ms"])
        self._timeout = float(timeout) / 1000
        self._ownership = ownership
        self._thread: threading.Thread | None = None
        self._fault: BaseException | None = None
        self._age = TransactionAge(self._timeout)
        self._sent: Mapping[TopicPartition, Position] = {}
        self._taken_at: float | None = None
        self.stage = Stage.NEW
        self.error: Answer | None = None

    @property
    def busy(self) -> bool:
        """True if the thread of a transaction is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, positions: Mapping[TopicPartition, Position], group: object, deadline: float
    ) -> None:
        """On a new thread, finish the last transaction, and commit `positions` if there are any."""
        self.error = self._fault = None
        self._thread = threading.Thread(
            target=self._run,
            args=(positions, group, deadline),
            name="eo-listener-transaction",
            daemon=True,
        )
        self._thread.start()

    def wait(self, deadline: float) -> bool:
        """Wait until the started transaction has ended; return False if `deadline` passes first.

        Raises the thread's error if that error did not come from Kafka.
        """
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
            if self._thread.is_alive():
                return False
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        return True

    @property
    def outlived(self) -> bool:
        """True if the broker may have ended the open transaction because of its age."""
        return self._age.outlived

    @property
    def young(self) -> bool:
        """True if this producer is so new that its own repeated request may have fenced it.

        librdkafka repeats an unanswered InitProducerId. If the first request arrives after the
        second, the broker takes the first for a request of a newer producer.
        """
        return self._taken_at is not None and time.monotonic() - self._taken_at < _YOUNG

    def failure(self, action: str, answer: Answer) -> KafkaError:
        """Return the error for the failed `action`."""
        self.poll()
        return self.connection_errors.failure(action, answer)

    def close(self) -> None:
        """Close the producer, unless it is stuck or was fenced.

        Closing a stuck producer would wait; closing a fenced producer would log a warning.

        A stuck producer stays on its daemon thread.
        """
        if not self.busy and self.stage in (Stage.NEW, Stage.READY):
            self.leave()

    def _run(
        self, positions: Mapping[TopicPartition, Position], group: object, deadline: float
    ) -> None:
        try:
            self._settle(deadline)
            if positions:
                self._transact(positions, group, deadline)
        except KafkaException as error:
            self.error = answer_of(error)
            resumable = self.error.retriable() or self.error.txn_requires_abort()
            if self.error.fatal() or not (self.stage is Stage.READY or resumable):
                self.stage = Stage.DEAD
        except Exception as error:  # noqa: BLE001  # raised again by `wait`, on the owner's thread
            self._fault = error
            self.stage = Stage.DEAD

    def _settle(self, deadline: float) -> None:
        """Finish the transaction that an earlier call left unfinished."""
        if self.stage is Stage.NEW:
            self._producer.init_transactions(seconds_until(deadline))
            self._taken_at = time.monotonic()
            self.stage = Stage.READY
        elif self.stage is Stage.COMMITTING:
            self._commit(deadline)
        elif self.stage is not Stage.READY:
            self._abort(deadline)

    def _transact(
        self, positions: Mapping[TopicPartition, Position], group: object, deadline: float
    ) -> None:
        wire = to_wire(positions)
        self._producer.begin_transaction()
        self._age = TransactionAge(self._timeout)
        self.stage = Stage.OPEN
        self._sent = positions
        self._ownership.record_sent(positions)
        fault_point("transaction.begun")
        try:
            self._producer.send_offsets_to_transaction(
                wire, group, min(_SEND, seconds_until(deadline))
            )
        except KafkaException as error:
            self._abandon(error, deadline)
            raise
        fault_point("transaction.offsets-sent")
        self._commit(deadline)

    def _commit(self, deadline: float) -> None:
        self.stage = Stage.COMMITTING
        try:
            self._producer.commit_transaction(seconds_until(deadline))
        except KafkaException as error:
            if answer_of(error).txn_requires_abort():
                self._abandon(error, deadline)
            raise  # fatal, or its outcome is unknown, and the next call repeats it
        fault_point("transaction.committed")
        self._ownership.record_confirmed(self._sent)
        self.stage = Stage.READY

    def _abandon(self, cause: KafkaException, deadline: float) -> None:
        """Abort because of `cause`; raise only if the abort fails with a fatal error."""
        self.stage = Stage.ABORTING
        if answer_of(cause).fatal():
            return
        try:
            self._abort(deadline)
        except KafkaException as error:
            if answer_of(error).fatal():
                raise

    def _abort(self, deadline: float) -> None:
        self.stage = Stage.ABORTING
        self._producer.abort_transaction(seconds_until(deadline))
        self._ownership.record_aborted(self._sent)
        self.stage = Stage.READY
