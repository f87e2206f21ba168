"""Build confluent-kafka's clients: their settings, and what they say of a failed connection."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError as Answer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from eo_listener.errors import KafkaError, SettingsError

DEFAULTS = {
    "client.id": "eo-listener",
    # librdkafka writes its own log lines to stderr, one a second while a broker is down:
    # what went wrong comes through error_cb, and is told once.
    "log_level": "0",
    "socket.connection.setup.timeout.ms": "5000",
    "reconnect.backoff.ms": "100",
    # A group should catch up within seconds of the broker's return, not after librdkafka's 10 s.
    "reconnect.backoff.max.ms": "2000",
}
_REMEMBERED = 4


class Client:
    """An AdminClient for one cluster, and the last thing its connections complained of.

    Not to be used after a fork: librdkafka's threads stay behind in the parent.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.servers = properties.get("bootstrap.servers", "")
        self._complaints: deque[str] = deque(maxlen=_REMEMBERED)
        self._process = os.getpid()
        self.admin = _admin({**DEFAULTS, **properties}, self._complaints)

    def complaint(self) -> str | None:
        """The newest thing a connection complained of since it was last asked; None if nothing."""
        self.admin.poll(0)
        newest = self._complaints[-1] if self._complaints else None
        self._complaints.clear()
        return newest

    def failure(self, what: str, error: KafkaException) -> KafkaError:
        """Turn an exception of the library into ours, with the connection's complaint."""
        answer = answer_of(error)
        return KafkaError(
            f"{what} at {self.servers} failed: {answer.name()} ({answer.str()})",
            code=answer.name(),
            cause=self.complaint(),
            fix="Check that the broker runs and that --bootstrap-server names it"
            if answer.name().startswith("_")
            else None,
        )


def answer_of(error: KafkaException) -> Answer:
    """The KafkaError inside an exception of the library."""
    answer = error.args[0]
    assert isinstance(answer, Answer)  # noqa: S101  # the library's own contract, told to mypy
    return answer


def check(properties: Mapping[str, str]) -> None:
    """Raise SettingsError if librdkafka does not accept these properties. Connects to nothing."""
    _admin(dict(properties), deque(maxlen=1))


def _admin(properties: Mapping[str, str], complaints: deque[str]) -> AdminClient:
    def complain(error: Answer) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # says no more than the one before it
            complaints.append(error.str())

    try:
        settings: dict[str, Any] = {**properties, "error_cb": complain}
        return AdminClient(settings)
    except KafkaException as error:
        raise SettingsError(
            f"the Kafka client does not accept its settings: {answer_of(error).str()}",
            cause="the names are librdkafka's, which differ from Java's here and there",
            fix="Correct the property",
        ) from None  # the library's own traceback may quote a value
