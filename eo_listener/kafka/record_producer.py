"""Producers for batches: idempotent, acknowledged by all in-sync replicas."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException, Producer

from eo_listener.kafka.client import (
    SILENT,
    TIMED_OUT,
    ConnectionErrors,
    accepted,
    answer_of,
    common,
)
from eo_listener.model.errors import KafkaError

_SETTINGS: Final = {
    "retry.backoff.ms": "10",  # how soon CONCURRENT_TRANSACTIONS is asked about again
    "reconnect.backoff.ms": "10",  # half of it: how soon a second broker is connected to
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
_DELIVERY: Final = {"delivery.timeout.ms": "120000"}  # Java's default; librdkafka's is 5 minutes
_CONSEQUENCES: Final = frozenset({"_STATE", "_PURGE_QUEUE", "_GAPLESS_GUARANTEE"})
"""What only says that there was an error before: in the transaction, or of the record before."""
_CLOSE: Final = 2.0  # seconds to wait for a producer to close
_MOMENT: Final = 0.05  # seconds to wait for room in the queue, or for its end
_ASK: Final = 1.0  # seconds for an answer with metadata
_REPORT: Final = 1.0  # seconds to wait for the report of a record that has failed already
_LOCAL_SIZE: Final = "MSG_SIZE_TOO_LARGE"
_SIZE: Final = "it is larger than kafka.max.request.size (1,000,000 bytes by default)"
_QUEUE: Final = "it is larger than kafka.buffer.memory (67,108,864 bytes by default)"


class TooLargeError(Exception):
    """The client refuses a record for its size, as the text says.

    What was sent before is not affected.
    """


class RecordProducer:
    """Sends records. To be used by one thread; every method but `leave` raises KafkaError.

    A record that was not delivered is an error of a later call. `fixed` are settings that replace
    the user's `properties`. Raises SettingsError for what librdkafka does not accept.
    """

    def __init__(self, properties: Mapping[str, str], fixed: Mapping[str, Any]) -> None:
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._failed: Answer | None = None
        self._producer = accepted(
            Producer,
            {
                **common({**_SETTINGS, **properties}),
                **_FIXED,
                **fixed,
                "on_delivery": self._delivered,
                "error_cb": self._errors.record,
                "logger": SILENT,
            },
        )

    @property
    def outlived(self) -> bool:
        """Whether it took longer than it may."""
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
                if was_empty:  # before this try, so there will never be more room
                    raise TooLargeError(_QUEUE) from None
                self._send_queued()
                was_empty = len(self._producer) == 0
                self._require_none_failed()
                if self.outlived:  # no room in all that time: nobody takes the records
                    raise self._failure("sending records", Answer(TIMED_OUT)) from None
            except KafkaException as error:
                answer = answer_of(error)
                if answer.name() == _LOCAL_SIZE:
                    raise TooLargeError(_SIZE) from None
                # A record that brokers refuse ends the transaction; then none is taken any more.
                self._producer.poll(_MOMENT)
                self._require_none_failed()
                raise self._failure("sending records", answer) from error
            else:
                return

    def send_each(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        keys: Iterable[bytes | str | None],
    ) -> dict[int, str]:
        """Send a record of each value and its key; twice as fast as `send` for each.

        Returns why the client refuses some, by their place. Raises KafkaError.
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
        """Wait until every record is acknowledged, or has failed; at most `timeout` seconds."""
        left = self._left() if timeout is None else min(timeout, self._left())
        deadline = time.monotonic() + left
        while len(self._producer):
            self._send_queued()
            self._require_none_failed()
            if time.monotonic() >= deadline:
                raise self._failure("sending records", Answer(TIMED_OUT))
        self._require_none_failed()

    def leave(self) -> None:
        """Let go of the connections, within a few seconds."""
        thread = threading.Thread(target=_close, args=(self._producer,), daemon=True)
        thread.start()
        thread.join(_CLOSE)

    def _left(self) -> float:
        """For how many seconds what was sent may be waited for: each record has a time-out."""
        return math.inf

    def _send_queued(self) -> None:
        """Have the queue sent without lingering, as far as a moment is enough; serve callbacks."""
        try:
            self._producer.flush(_MOMENT)
        except (KafkaException, SystemError) as error:
            raise self._failure("sending records", answer_of(_thrown(error))) from error

    def _require_none_failed(self) -> None:
        if self._failed is not None:
            raise self._failure("sending records", self._failed)

    def _failure(self, what: str, answer: Answer) -> KafkaError:
        try:
            self._producer.poll(0)
        except KafkaException as error:  # one that is fatal comes out of here every time
            self._errors.record(answer_of(error))
        if answer.fatal():  # what a connection has reported before is not the reason
            self._errors.fatal = answer
        found = self._errors.failure(what, answer)
        if found.code not in _CONSEQUENCES or (first := self._first()) is None:
            return found
        self._errors.fatal = None
        return self._errors.failure(what, first)

    def _first(self) -> Answer | None:
        """The error of which others are the consequence, where it is known."""
        return self._failed

    def _delivered(self, error: Answer | None, _: object) -> None:
        if error is not None and self._failed is None:
            self._failed = error


class IdempotentProducer(RecordProducer):
    """A producer without transactions: what it has sent stays, and nobody can be fenced by it.

    If a record was not delivered, none behind it is.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__({**_DELIVERY, **properties}, {"enable.gapless.guarantee": "true"})

    def connect(self, topic: str) -> None:
        """Ask for metadata of a topic that exists; records may be sent without that.

        A new client asks for its producer id when metadata come, and otherwise half a second later.
        The first answer may come before it waits for that.
        """
        with suppress(KafkaException):
            for _ in range(2):
                self._producer.list_topics(topic, timeout=_ASK)

    def leave(self) -> None:
        """Let go of the connections. What was not sent yet is not sent any more."""
        with suppress(KafkaException):
            self._producer.purge()
        super().leave()

    def _first(self) -> Answer | None:
        """The record's own error: the client may say first that it sends none behind it."""
        deadline = time.monotonic() + _REPORT
        while self._failed is None and len(self._producer) and time.monotonic() < deadline:
            with suppress(KafkaException):
                self._producer.poll(_MOMENT)
        return self._failed


def _thrown(error: BaseException) -> KafkaException:
    """What Kafka's client has raised: a SystemError where it then called another callback."""
    while not isinstance(error, KafkaException):
        if error.__cause__ is None:
            raise error
        error = error.__cause__
    return error


def _close(producer: Producer) -> None:
    with warnings.catch_warnings():
        # It warns where a call is under way, and fails where the producer was fenced: it is closed
        # in either case.
        warnings.simplefilter("ignore")
        with suppress(KafkaException, SystemError):
            producer.close()
