"""Builds confluent-kafka's clients with their settings, and keeps the errors of their connections.

Requests go through a Consumer that never subscribes, so that the Consumer joins no group and
fetches nothing. They do not go through the AdminClient: while a broker restarts, the AdminClient's
requests for groups can end the whole process, by an assertion
(`rd_kafka_enq_once_del_source_return`, seen with 2.16.1) or a null pointer (librdkafka#5040). The
docstring of `eo_listener.kafka` describes the measurement. Only the AdminClient can describe
topics; that request survived the same restarts.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient

from eo_listener.client_config.identities import INSTANCE_ID
from eo_listener.client_config.validation import require_property
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.offsets import Position, TopicPartition

SOCKET_TIMEOUT = 5  # seconds, after which librdkafka gives up a request, or sends it again

_COMMON = {
    "client.id": "eo-listener",
    # librdkafka writes log lines of its own to stderr, one a second while a broker is down:
    # what went wrong comes through error_cb, and is reported once.
    "log_level": "0",
    "socket.timeout.ms": str(1000 * SOCKET_TIMEOUT),
    "socket.connection.setup.timeout.ms": "5000",
    "reconnect.backoff.ms": "100",
    # A group should catch up within seconds of the broker's return, not after librdkafka's 10 s.
    "reconnect.backoff.max.ms": "2000",
    # This client needs only answers to requests, never records or changes of topics.
    "topic.metadata.refresh.interval.ms": "-1",
    # For this long, librdkafka may answer from memory that a new partition does not exist.
    "metadata.max.age.ms": "2000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The settings of a Consumer. The user's properties override `settings`, but not `fixed`."""

    settings: Mapping[str, str]
    fixed: Mapping[str, str]


OUTSIDER = Role(
    settings={
        "enable.auto.commit": "false",
        # librdkafka holds a commit back for this long if there is no coordinator, and a
        # close waits for it: with the default a program took 45 s to end while its broker was down.
        "session.timeout.ms": "5000",
        "heartbeat.interval.ms": "1000",
    },
    fixed={
        # A client that never joins has no member epoch, which the user's `consumer` would require.
        "group.protocol": "classic",
        # The log end as Kafka's own tools show it, open transactions included.
        "isolation.level": "read_uncommitted",
    },
)
# Reads a group only after the transactions on it have ended.
STABLE = replace(OUTSIDER, fixed={**OUTSIDER.fixed, "isolation.level": "read_committed"})

MEMBER = Role(
    settings={
        # A fixed name: a member that joins with this name takes the place of the previous member.
        "group.instance.id": INSTANCE_ID,
        # The maximum: other groups may delay the committer's thread, which polls. And a member that
        # has not polled for this long joins again, and displaces the member that has replaced it.
        "max.poll.interval.ms": "86400000",
        "topic.metadata.refresh.interval.ms": "30000",
        # The length of a session is Kafka's default, 45 s; in the new protocol the broker sets it.
    },
    fixed={"enable.auto.commit": "false"},
)

# librdkafka writes fatal errors of a client to stderr at any level, unless it has a logger.
SILENT = logging.getLogger("eo_listener.librdkafka")
SILENT.disabled = True

# The first adds nothing to the error before it. The second means only that a member subscribed to a
# topic that is gone.
_NO_REASON = frozenset({"_ALL_BROKERS_DOWN", "UNKNOWN_TOPIC_OR_PART"})
# Kafka's numbers of errors after which a member never works again: fenced, instance id in use, not
# authorized, unknown protocol, too many members, assignor or version not supported. For a producer:
# fenced (librdkafka's number and Kafka's), no right to the transactional id, and an invalid
# time-out.
_FATAL_REASONS = (82, 111, 30, 23, 81, 112, 35, -144, 90, 47, 53, 50)

_UNREACHABLE = "Check that the broker is running and that this address is right"
_FIXES = {
    "_AUTHENTICATION": "Check the client's login: the mechanism, the user name and the password",
    "_SSL": "Check the certificates: the authorities that the client trusts, and its own if the "
    "broker asks for one",
    "_FATAL": None,
}

TIMED_OUT = -185  # librdkafka's RD_KAFKA_RESP_ERR__TIMED_OUT

OnCommit = Callable[[Answer | None, list[Wire]], None]
_C = TypeVar("_C")


class ConnectionErrors:
    """Keeps the errors of a client's connections until a request succeeds.

    A broker reports its reason (a missing right, for example) once, separately from the request
    that it concerns.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._worst: Answer | None = None
        self.fatal: Answer | None = None
        self.connections_lost = 0

    def record(self, error: Answer) -> None:
        """Record an error. A confluent-kafka client calls this method as its `error_cb`."""
        if error.name() in _NO_REASON:
            return
        if error.name() == "_FATAL":
            self.fatal = error
        self.connections_lost += is_local(error)
        # A broker reports its reason once, and that explains more than the client's later errors.
        if self._worst is None or is_local(self._worst) or not is_local(error):
            self._worst = error

    def forget(self) -> None:
        """Forget the recorded error. Call this after a request has succeeded."""
        self._worst = None

    def failure(self, action: str, answer: Answer) -> KafkaError:
        """Return the error for the failed `action`; a connection's error, if any, is its cause."""
        reason = self._worst if self._worst is not None and is_local(answer) else answer
        if self.fatal is not None:
            reason = self.fatal
        code = _inner_name(reason)
        return KafkaError(
            f"{action} at {self._servers} failed: {code}",
            code=code,
            cause=reason.str(),
            fix=_FIXES.get(code, _UNREACHABLE if code.startswith("_") else None),
        )


class Client:
    """A Consumer of one group, which never fetches.

    Raises SettingsError for properties that librdkafka does not accept. Two threads must not use a
    client at once, and a forked process must not use it at all. `errors` has the errors of the
    client's connections; after a `fatal` error no request will ever succeed.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        group: str,
        on_commit: OnCommit | None = None,
        *,
        role: Role = OUTSIDER,
    ) -> None:
        self.errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        settings: dict[str, Any] = {
            **_COMMON,
            **role.settings,
            **properties,
            **role.fixed,
            "group.id": group,
            "error_cb": self.errors.record,
            "logger": SILENT,
        }
        if on_commit is not None:
            settings["on_commit"] = on_commit
        self.consumer = new_client(Consumer, settings)

    def poll(self, timeout: float = 0.0) -> None:
        """Run librdkafka's waiting callbacks, for at most `timeout` seconds."""
        try:
            message = self.consumer.poll(timeout)
        except:  # noqa: E722  # a fenced member raises a KafkaError, which is no Exception
            raised: object = sys.exc_info()[1]
            if not isinstance(raised, Answer):
                raise
            self.errors.record(raised)
            return
        error = message.error() if message is not None else None
        if error is not None:  # a consumer that does not fetch gets nothing but errors
            self.errors.record(error)

    def failure(self, action: str, answer: Answer) -> KafkaError:
        """Return the error for the failed `action`; a connection's error, if any, is its cause."""
        self.poll()
        return self.errors.failure(action, answer)

    def close(self) -> None:
        """Close the connections; wait a few seconds for an unanswered commit."""
        self.consumer.close()


def to_wire(positions: Mapping[TopicPartition, Position]) -> list[Wire]:
    """Convert `positions` to librdkafka's type."""
    return [
        Wire(tp.topic, tp.partition, position.offset, position.metadata)
        for tp, position in positions.items()
    ]


def with_defaults(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return this package's defaults for any kind of client, overridden by `properties`."""
    return {**_COMMON, **properties}


def open_admin(properties: Mapping[str, str]) -> AdminClient:
    """Open an AdminClient with these properties. Raises SettingsError.

    Keep a reference to the client until you have read its answers: a client that was
    garbage-collected returns no answers.
    """
    return new_client(AdminClient, with_defaults(properties))


def open_reader(
    properties: Mapping[str, str], name: str, *, committed: bool, error_cb: Callable[[Answer], None]
) -> Consumer:
    """Open a Consumer that reads the partitions assigned to it. Raises SettingsError.

    The Consumer joins no group, but librdkafka requires a group's `name`. The Consumer reports the
    end of a partition, and reports an error if the log no longer has the offset to read. With
    `committed`, its isolation level is read_committed, otherwise read_uncommitted.
    """
    settings: dict[str, Any] = {
        **with_defaults(properties),
        "group.id": name,
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "error_cb": error_cb,
        "logger": SILENT,
    }
    return new_client(Consumer, settings)


def new_client(kind: Callable[[dict[str, Any]], _C], settings: dict[str, Any]) -> _C:
    """Open a client of this `kind`. Raises SettingsError if librdkafka rejects the settings.

    The function checks the settings first: a text that is not UTF-8 would end the whole process.
    """
    for name, value in settings.items():
        require_property(name, value)
    try:
        return kind(settings)
    except TypeError as error:
        if "property name" not in str(error):
            raise
        # Every name is a text: confluent-kafka reports a Ctrl-C during this call as this error.
        raise KeyboardInterrupt from error
    except KafkaException as error:
        raise SettingsError(
            f"the Kafka client does not accept its settings: {answer_of(error).str()}",
            cause="the names are librdkafka's, some of which differ from Java's",
            fix="Correct the property",
        ) from None  # the library's own traceback may quote a value


def chunks(values: Iterable[_C], size: int) -> Iterator[list[_C]]:
    """Yield the values in lists of at most `size` values."""
    remaining = iter(values)
    while chunk := list(islice(remaining, size)):
        yield chunk


def seconds_until(deadline: float) -> float:
    """Return the seconds until `deadline` (monotonic clock), at least 0.1."""
    return max(0.1, deadline - time.monotonic())


def answer_of(error: KafkaException | Late) -> Answer:
    """Return confluent-kafka's KafkaError from its exception, or a time-out error for `Late`."""
    answer = Answer(TIMED_OUT) if isinstance(error, Late) else error.args[0]
    assert isinstance(answer, Answer)  # noqa: S101  # the library's own contract, for mypy
    return answer


def _inner_name(error: Answer) -> str:
    """Return the name of `error`, or of the reason for a fatal error if the reason is known.

    librdkafka gives the reason for a fatal error only as a text, so this function compares texts.
    """
    if error.name() == "_TRANSPORT" and "SSL routines" in error.str():
        return "_SSL"  # under TLS 1.3 a broker refuses a certificate when the handshake is over
    if error.name() != "_FATAL":
        return error.name()
    for code in _FATAL_REASONS:
        reason = Answer(code)
        if reason.str() in error.str():
            return reason.name()
    return error.name()


def is_local(error: Answer) -> bool:
    """Return True if `error` comes from librdkafka itself, not from a broker."""
    return error.name().startswith("_")
