"""The `kafka.*` options of a writer that tune its producer, translated from Java's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from eo_listener.client_config.kafka_options import PREFIX
from eo_listener.model.errors import SettingsError

TRANSACTION_TIMEOUT: Final = 600.0
"""Seconds that brokers leave a batch's transaction open, unless it is said otherwise."""

_ALIKE: Final = frozenset(
    {
        "batch.size",
        "client.id",
        "compression.type",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
    }
)
_RENAMED: Final = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_LOGIN: Final = ("ssl.", "sasl.", "security.")
_BUFFER: Final = "buffer.memory"
_PARTITIONER: Final = "partitioner.class"
_NEVER: Final = {
    "transactional.id": "the transaction has the id of the sink and the query, by which an older "
    "driver is fenced",
    "transaction.timeout.ms": "it is transaction_timeout=, in seconds",
    "interceptor.classes": "this sink calls none: what they would change, it could not prove",
    "partitioner.ignore.keys": "this sink sends equal keys to one partition",
    "key.serializer": "keys are sent as they are, as in Spark's own sink",
    "value.serializer": "values are sent as they are, as in Spark's own sink",
}
_ONLY: Final = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioner:
    """A class of Java that chooses partitions, and what it is configured with."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Partitioner | None:
        """Find it among the options; keys are in lower case. It is given nothing of the login."""
        name = options.get(PREFIX + _PARTITIONER)
        if name is None:
            return None
        properties = java_properties(options)
        others = {key: properties[key] for key in properties if not key.startswith(_LOGIN)}
        return cls(name=name.strip(), properties=others)

    def argument(self) -> dict[str, object]:
        """Its part of a request to the shim."""
        return {"partitioner": self.name, "partitionerProperties": dict(self.properties)}


def java_properties(options: Mapping[str, str]) -> dict[str, str]:
    """All of a producer's properties, in Java's names; keys are in lower case.

    Without the partitioner: records are sent to the partition that was chosen before.
    """
    return {
        name.removeprefix(PREFIX): text
        for name, text in options.items()
        if name.startswith(PREFIX) and name != PREFIX + _PARTITIONER
    }


def producer_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Translate what tunes a producer into librdkafka's properties; keys are in lower case.

    What has no equal in librdkafka, and changes no result, is left out, and the partitioner, which
    only Java can use. Raises SettingsError for what a transaction forbids, or what is the sink's
    own to say.
    """
    found: dict[str, str] = {}
    for given, value in options.items():
        name = given.removeprefix(PREFIX)
        if name == given:
            continue
        if name in _NEVER:
            raise SettingsError(
                f"the option {given} cannot be given to this sink",
                cause=_NEVER[name],
                fix="Leave it out",
            )
        if name in _ONLY and value.strip().lower() not in _ONLY[name]:
            raise SettingsError(
                f"the option {given} must be {_ONLY[name][0]!r} for this sink",
                cause="Kafka's transactions need it",
                fix="Leave it out",
            )
        if name in _ALIKE:
            found[name] = value
        elif name in _RENAMED:
            found[_RENAMED[name]] = value
        elif name == _BUFFER:
            found["queue.buffering.max.kbytes"] = str(_kilobytes(given, value))
    return found


def _kilobytes(option: str, value: str) -> int:
    try:
        return max(1, int(value) // 1024)
    except ValueError:
        raise SettingsError(
            f"the option {option} must be a number of bytes", fix="Correct it"
        ) from None
