"""A transactional producer for one try of one batch.

Each try gets a new producer, and with it a new epoch, so that no late request of an earlier try can
add to this one's transaction or end it. Every blocking call of librdkafka is made on a thread of
its own and waited for up to a limit: sending offsets can block forever (librdkafka#5456).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, auto
from functools import partial
from itertools import islice
from typing import Final

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException

from eo_listener.kafka.client import SOCKET_TIMEOUT, STABLE, TIMED_OUT, Client, answer_of, wire_of
from eo_listener.kafka.record_producer import RecordProducer
from eo_listener.kafka.transaction_age import TransactionAge
from eo_listener.model.fault_points import reached
from eo_listener.model.offsets import Position, TopicPartition

FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Kafka's answers when another producer has the transactional id, or the broker has aborted."""

_MARGIN: Final = 1.0  # seconds that a call may take beyond the timeout that it was given
_ASK: Final = 0.5  # seconds for an answer with metadata
_PAUSE: Final = 0.01  # between two such questions
_POLL: Final = 0.5  # seconds between two looks for what librdkafka reports
_OFFSETS: Final = 1000  # in one request: more than 4,500 make a record that is too large


class Stage(Enum):
    """How far the producer and its one transaction are."""

    NEW = auto()
    STARTING = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ENDED = auto()


class BatchProducer(RecordProducer):
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
                # librdkafka accepts none that is longer.
                "socket.timeout.ms": str(min(1000 * SOCKET_TIMEOUT, milliseconds)),
                "transactional.id": transactional_id,
                # The only way to a producer's id and epoch; a text of some kilobytes each time.
                "statistics.interval.ms": "20" if joined else "0",
                "stats_cb": self._take_statistics,
            },
        )

    @property
    def outlived(self) -> bool:
        """Whether the broker may have ended the transaction by itself, for its age."""
        return self._age is not None and self._age.outlived

    def take_over(self, timeout: float, *, topic: str | None = None) -> None:
        """Fence older producers of the transactional id, and end the transaction they left open.

        `topic` is one that exists. librdkafka looks for the coordinator at once, when it has no
        connection yet, then when metadata come, and every 500 ms (rd_kafka_idemp_pid_fsm); so does
        it after CONCURRENT_TRANSACTIONS. So metadata are asked for meanwhile.
        """
        self.stage = Stage.STARTING
        done = threading.Event()

        def init(left: float) -> None:
            try:
                self._producer.init_transactions(left)
            finally:
                done.set()

        ask = None if topic is None else partial(self._ask_until, done, topic, timeout)
        self._bounded("init_transactions", init, timeout, begun=ask)
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
                self._is_known = True
                return number, epoch
            if time.monotonic() >= deadline:
                raise self._failure("asking for the producer's id", Answer(TIMED_OUT))

    @contextmanager
    def polled(self) -> Iterator[None]:
        """Have a thread take what librdkafka reports while this one waits for something else.

        Of a producer that is `joined` it keeps a text of some kilobytes every 20 ms until then.
        """
        over = threading.Event()

        def poll() -> None:
            while not over.wait(_POLL):
                # What is fatal comes out of every later call too.
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
        """Begin the transaction; the broker hears of it with the first record."""
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
        client = Client(self._properties, group, role=STABLE)
        try:
            membership = client.consumer.consumer_group_metadata()
        finally:
            client.close()
        wire = iter(wire_of(positions))
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
        super().leave()

    def _ask_until(self, done: threading.Event, topic: str, timeout: float) -> None:
        """Ask for metadata again and again, for `timeout` seconds at most."""
        ends = time.monotonic() + timeout
        while not done.is_set() and (left := ends - time.monotonic()) > 0:
            with suppress(KafkaException):
                self._producer.list_topics(topic, timeout=min(left, _ASK))
            done.wait(_PAUSE)

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

    def _first(self) -> Answer | None:
        """That of the transaction: a record tells it of the record alone.

        Where a partition may not join it, all records are purged. What the next call for the
        transaction is answered is the reason; this one is answered by the client itself.
        """
        if self.stage is Stage.OPEN:
            try:
                self._producer.begin_transaction()
            except KafkaException as error:
                if answer_of(error).name() != "_STATE":  # a transaction is open, and all is well
                    return answer_of(error)
        return super()._first()

    def _left(self) -> float:
        return self._timeout if self._age is None else self._age.left

    def _take_statistics(self, text: str) -> None:
        if not self._is_known:
            self._statistics = json.loads(text).get("eos", {})
