"""Build confluent-kafka's client: its settings, and what it says of a failed connection.

Requests go through a Consumer that never subscribes, so it joins no group and fetches nothing.
Not through the AdminClient: while a broker restarts, librdkafka's group requests of the admin
kind can end the whole process, by an assertion (`rd_kafka_enq_once_del_source_return`, seen with
2.16.1) or through a null pointer (librdkafka#5040). DESIGN.md has the measurement. One request
that only the AdminClient has went through the same restarts unharmed: the ids of topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient

from eo_listener.errors import KafkaError, SettingsError

_DEFAULTS = {
    "client.id": "eo-listener",
    # librdkafka writes its own log lines to stderr, one a second while a broker is down:
    # what went wrong comes through error_cb, and is told once.
    "log_level": "0",
    "enable.auto.commit": "false",
    "socket.timeout.ms": "5000",
    "socket.connection.setup.timeout.ms": "5000",
    "reconnect.backoff.ms": "100",
    # A group should catch up within seconds of the broker's return, not after librdkafka's 10 s.
    "reconnect.backoff.max.ms": "2000",
    # librdkafka holds a commit back for as long as this when there is no coordinator, and a close
    # waits for it: with the default a program would need 45 s to end while its broker is down.
    "session.timeout.ms": "5000",
    "heartbeat.interval.ms": "1000",
    # The log end as Kafka's own tools show it, open transactions included.
    "isolation.level": "read_uncommitted",
    # Only Kafka's answers are wanted, never records or news of topics.
    "topic.metadata.refresh.interval.ms": "-1",
    # Until then librdkafka answers from memory that a partition added meanwhile does not exist.
    "metadata.max.age.ms": "2000",
}

TIMED_OUT = -185  # librdkafka's RD_KAFKA_RESP_ERR__TIMED_OUT

OnCommit = Callable[[Answer | None, list[Wire]], None]


class Client:
    """A Consumer of one group that never subscribes, and what its connections complain of.

    Raises SettingsError for properties that librdkafka does not accept. Not to be used by two
    threads at once, nor after a fork.
    """

    def __init__(
        self, properties: Mapping[str, str], group: str, on_commit: OnCommit | None = None
    ) -> None:
        self.servers = properties.get("bootstrap.servers", "")
        self._complaint: Answer | None = None
        settings: dict[str, Any] = {
            **_DEFAULTS,
            **properties,
            "group.id": group,
            "error_cb": self._complain,
        }
        if on_commit is not None:
            settings["on_commit"] = on_commit
        try:
            self.consumer = Consumer(settings)
        except KafkaException as error:
            raise _unacceptable(error) from None  # the library's traceback may quote a value

    def poll(self, timeout: float = 0.0) -> None:
        """Serve callbacks, for at most `timeout` seconds."""
        message = self.consumer.poll(timeout)
        error = message.error() if message is not None else None
        if error is not None:  # a consumer that does not subscribe gets nothing but errors
            self._complain(error)

    def content(self) -> None:
        """Forget all complaints: a request has been answered."""
        self._complaint = None

    def failure(self, what: str, answer: Answer) -> KafkaError:
        """Say that `what` failed; where a connection complained, that is the reason."""
        self.poll()
        reason = self._complaint if self._complaint is not None and _is_local(answer) else answer
        return KafkaError(
            f"{what} at {self.servers} failed: {reason.name()}",
            code=reason.name(),
            cause=reason.str(),
            fix="Check that the broker runs and that this address is right"
            if _is_local(reason)
            else None,
        )

    def _complain(self, error: Answer) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":  # says no more than the one before it
            return
        # What a broker says is told once, and explains more than what this side saw after it.
        if self._complaint is None or _is_local(self._complaint) or not _is_local(error):
            self._complaint = error


def open_admin(properties: Mapping[str, str]) -> AdminClient:
    """An AdminClient with the same settings. Raises SettingsError.

    Keep it until its answers were read: one that is collected answers nothing.
    """
    try:
        return AdminClient({**_DEFAULTS, **properties})
    except KafkaException as error:
        raise _unacceptable(error) from None  # as above


def _unacceptable(error: KafkaException) -> SettingsError:
    return SettingsError(
        f"the Kafka client does not accept its settings: {answer_of(error).str()}",
        cause="the names are librdkafka's, which differ from Java's here and there",
        fix="Correct the property",
    )


def _is_local(error: Answer) -> bool:
    """True for librdkafka's own errors, which no broker has sent."""
    return error.name().startswith("_")


def answer_of(error: KafkaException) -> Answer:
    """The KafkaError inside an exception of the library."""
    answer = error.args[0]
    assert isinstance(answer, Answer)  # noqa: S101  # the library's own contract, told to mypy
    return answer


def check(properties: Mapping[str, str]) -> None:
    """Raise SettingsError if librdkafka does not accept these properties. Connects to nothing."""
    Client({**properties, "bootstrap.servers": ""}, "eo-listener-check").consumer.close()
