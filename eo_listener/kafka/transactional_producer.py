"""A transactional producer of offsets: one transaction after the other, each watched.

librdkafka's calls are made on a thread of their own, because sending offsets can block forever
(librdkafka#5456, #5511). A call that timed out is taken up again on the same producer, where
librdkafka goes on with it: a new producer is opened only when this one is unusable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from enum import Enum, auto

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException, Producer

from eo_listener.kafka.client import SILENT, ConnectionErrors, accepted, answer_of, common, wire_of
from eo_listener.kafka.ownership import Ownership
from eo_listener.kafka.transaction_age import TransactionAge
from eo_listener.model.errors import KafkaError
from eo_listener.model.fault_points import reached
from eo_listener.model.offsets import Position, TopicPartition

TRANSACTION_TIMEOUT = 60.0  # librdkafka's own; every broker takes it by default
_TRANSACTIONAL = {
    "transaction.timeout.ms": str(int(TRANSACTION_TIMEOUT * 1000)),
    # With the default of 100 ms every transaction takes as long: librdkafka waits so before it
    # repeats what the broker, still busy with the last one, answered CONCURRENT_TRANSACTIONS.
    "retry.backoff.ms": "10",
}
_SEND = 4.0  # seconds for sending: an unknown topic is asked for that long before it is an error
_YOUNG = 60.0  # seconds; a request that was held up for longer is beyond what is reckoned with
_CLOSE = 2.0  # seconds to wait for a producer to end


class Stage(Enum):
    """How far the producer is."""

    NEW = auto()
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()
    DEAD = auto()


class OffsetProducer:
    """Commits offsets to one group in transactions. Raises SettingsError when opened.

    For one thread, which starts a transaction, waits for it, and asks for its `error`.
    """

    def __init__(
        self, properties: Mapping[str, str], transactional_id: str, ownership: Ownership
    ) -> None:
        self.connection_errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._producer = accepted(
            Producer,
            {
                **common({**_TRANSACTIONAL, **properties}),
                "transactional.id": transactional_id,
                "error_cb": self.connection_errors.record,
                "logger": SILENT,
            },
        )
        timeout = properties.get("transaction.timeout.ms", _TRANSACTIONAL["transaction.timeout.ms"])
        self._timeout = float(timeout) / 1000
        self._ownership = ownership
        self._thread: threading.Thread | None = None
        self._fault: BaseException | None = None
        self._age = TransactionAge(self._timeout)
        self._sent: Mapping[TopicPartition, Position] = {}
        self._taken: float | None = None
        self.stage = Stage.NEW
        self.error: Answer | None = None

    @property
    def busy(self) -> bool:
        """Whether a transaction is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, positions: Mapping[TopicPartition, Position], group: object, deadline: float
    ) -> None:
        """Begin with a transaction, after what is left of the last; none without positions."""
        self.error = self._fault = None
        self._thread = threading.Thread(
            target=self._run,
            args=(positions, group, deadline),
            name="eo-listener-transaction",
            daemon=True,
        )
        self._thread.start()

    def wait(self, deadline: float) -> bool:
        """Wait for the end of what was started; say whether it has come.

        Raises what was not Kafka's doing.
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
        """Whether the broker may have ended the open transaction by itself, for its age."""
        return self._age.outlived

    @property
    def young(self) -> bool:
        """Whether it has taken the group so recently that its own request may have fenced it.

        librdkafka repeats an InitProducerId whose answer does not come; when the first one
        arrives after the second, the broker takes it for a successor.
        """
        return self._taken is not None and time.monotonic() - self._taken < _YOUNG

    def failure(self, what: str, answer: Answer) -> KafkaError:
        """Say that `what` failed."""
        self.poll()
        return self.connection_errors.failure(what, answer)

    def poll(self) -> None:
        """Serve callbacks."""
        try:
            self._producer.poll(0)
        except KafkaException as error:  # one that is fatal comes out of here every time
            self.connection_errors.record(answer_of(error))

    def close(self) -> None:
        """End it.

        One that is stuck, or was fenced, is not asked to: it would wait, or warn. The first is
        left behind on its daemon thread.
        """
        if not self.busy and self.stage in (Stage.NEW, Stage.READY):
            thread = threading.Thread(target=self._producer.close, daemon=True)
            thread.start()
            thread.join(_CLOSE)

    def _run(
        self, positions: Mapping[TopicPartition, Position], group: object, deadline: float
    ) -> None:
        try:
            self._settle(deadline)
            if positions:
                self._transact(positions, group, deadline)
        except KafkaException as error:
            self.error = answer_of(error)
            if self.error.fatal() or not (self.stage is Stage.READY or _resumable(self.error)):
                self.stage = Stage.DEAD
        except Exception as error:  # noqa: BLE001  # raised again by `wait`, on the owner's thread
            self._fault = error
            self.stage = Stage.DEAD

    def _settle(self, deadline: float) -> None:
        """Bring what an earlier call left to its end."""
        if self.stage is Stage.NEW:
            self._producer.init_transactions(_left(deadline))
            self._taken = time.monotonic()
            self.stage = Stage.READY
        elif self.stage is Stage.COMMITTING:
            self._commit(deadline)
        elif self.stage is not Stage.READY:
            self._abort(deadline)

    def _transact(
        self, positions: Mapping[TopicPartition, Position], group: object, deadline: float
    ) -> None:
        wire = wire_of(positions)
        self._producer.begin_transaction()
        self._age = TransactionAge(self._timeout)
        self.stage = Stage.OPEN
        self._sent = positions
        self._ownership.sending(positions)
        reached("transaction.begun")
        try:
            self._producer.send_offsets_to_transaction(wire, group, min(_SEND, _left(deadline)))
        except KafkaException as error:
            self._abandon(error, deadline)
            raise
        reached("transaction.offsets-sent")
        self._commit(deadline)

    def _commit(self, deadline: float) -> None:
        self.stage = Stage.COMMITTING
        try:
            self._producer.commit_transaction(_left(deadline))
        except KafkaException as error:
            if answer_of(error).txn_requires_abort():
                self._abandon(error, deadline)
            raise  # else it is fatal, or its outcome is unknown: then it is asked for again
        reached("transaction.committed")
        self._ownership.confirmed(self._sent)
        self.stage = Stage.READY

    def _abandon(self, cause: KafkaException, deadline: float) -> None:
        """Abort, because of `cause`; raises only where the abort fails for good."""
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
        self._producer.abort_transaction(_left(deadline))
        self._ownership.aborted(self._sent)
        self.stage = Stage.READY


def _resumable(answer: Answer) -> bool:
    return answer.retriable() or answer.txn_requires_abort()


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
