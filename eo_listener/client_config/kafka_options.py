"""Selects the `kafka.*` options, under their Java names, that connect a source or tune a sink."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from eo_listener.errors import SettingsError

PREFIX: Final = "kafka."
PROTOCOL: Final = "security.protocol"
ENDPOINT: Final = "ssl.endpoint.identification.algorithm"

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS: Final[tuple[Protocol, ...]] = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

PROVIDERS: Final = "config.providers"

_LOGIN: Final = ("ssl.", "sasl.", "security.")
_COUNT: Final = (*_LOGIN, PROVIDERS)
_DNS: Final = "client.dns.lookup"
_DNS_ALIKE: Final = frozenset({"use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"})

# Options of librdkafka, not of Java: Spark ignores them, and here they would load or run code.
_REFUSED: Final = frozenset(
    {"plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers"}
)
_NEVER: Final = ("sasl.kerberos.kinit.cmd",)  # librdkafka would pass it to a shell
# Times of repeated logins, and a broker's handling of tokens: librdkafka does not need these
# options.
_TUNING: Final = (
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.",
    "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.server.",
)
# Properties that the user gives, by the beginnings of their librdkafka names, and the equivalents
# in Java.
_REPLACED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sasl.": ("sasl.",),
        "ssl.ca.": ("ssl.truststore.",),
        "ssl.certificate.": ("ssl.keystore.", "ssl.key."),
        "ssl.key.": ("ssl.keystore.", "ssl.key."),
        "ssl.keystore.": ("ssl.keystore.", "ssl.key."),
        "ssl.cipher.suites": ("ssl.cipher.suites",),
        ENDPOINT: (ENDPOINT,),
    }
)


class OnlyJava(Exception):  # noqa: N818  # no error: librdkafka cannot do it, Java's client can
    """Only Java's own client can reach the cluster.

    The error's text gives the reason, and quotes no value.
    """


def client_options(source: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """Return the connection options without their prefix; leave out options that `own` replaces.

    `source` are all options of a reader, `own` the names of librdkafka's properties that the user
    gave. Raises SettingsError for options that would be dangerous in a client of this package, and
    for options with a NUL, which no client would read as intended.
    """
    options = {
        name.removeprefix(PREFIX): text for name, text in source.items() if name.startswith(PREFIX)
    }
    for name in _REFUSED & options.keys():
        raise SettingsError(
            f"the source option {PREFIX}{name} is never used",
            cause="it is not an option of Spark's Kafka client, and here it would load foreign "
            "code",
            fix="remove it",
        )
    replaced = tuple(_replaced_by(own))
    selected = {
        name: text
        for name, text in options.items()
        if (name.startswith(_COUNT) or name == _DNS) and not name.startswith((*_NEVER, *replaced))
    }
    for name, text in selected.items():
        if "\0" in text:
            raise SettingsError(
                f"the source option {PREFIX}{name} contains a NUL character",
                cause="librdkafka would take it for the end of the string",
                fix="correct the option",
            )
    return selected


def _replaced_by(own: Iterable[str]) -> Iterable[str]:
    for name in own:
        for start, options in _REPLACED.items():
            if name.startswith(start):
                yield from options


def protocol(options: Mapping[str, str]) -> Protocol:
    """Return the security protocol. Raises SettingsError if it is unknown."""
    name = options.get(PROTOCOL, "PLAINTEXT").strip().upper()
    for candidate in PROTOCOLS:
        if name == candidate:
            return candidate
    raise SettingsError(
        f"the source option {PREFIX}{PROTOCOL} does not name a security protocol",
        cause="it may be misspelt",
        fix=f"use one of {', '.join(PROTOCOLS)}",
    )


def connections(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that have the same name and meaning in librdkafka and Java's client."""
    lookup = options.get(_DNS)
    return {_DNS: lookup} if lookup in _DNS_ALIKE else {}


def require_known(options: Iterable[str], start: str, supported: Collection[str]) -> None:
    """Raise OnlyJava for an option that begins with `start` and has no equivalent in librdkafka."""
    for name in sorted(options):
        if name.startswith(start) and name not in supported and not name.startswith(_TUNING):
            raise OnlyJava(f"librdkafka has no equivalent of the source option {PREFIX}{name}")


MAX_TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
"""Kafka's default for `transaction.max.timeout.ms`, a setting of brokers."""

TRANSACTION_TIMEOUT: Final = 600.0
"""The default time in seconds for which brokers leave a batch's transaction open."""

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
_BUFFER: Final = "buffer.memory"
_PARTITIONER: Final = "partitioner.class"
_NOT_FOR_SINK: Final = {
    "transactional.id": "the transaction uses the id of the sink and the query, which fences an "
    "older driver",
    "transaction.timeout.ms": "use transaction_timeout=, in seconds",
    "interceptor.classes": "this sink calls no interceptors: it could not prove what they change",
    "partitioner.ignore.keys": "this sink sends equal keys to one partition",
    "key.serializer": "keys are sent as they are, as in Spark's own sink",
    "value.serializer": "values are sent as they are, as in Spark's own sink",
}
_ONLY: Final = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioner:
    """A Java class that chooses partitions, and the properties that configure it."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Partitioner | None:
        """Return the partitioner that `options` name, or None; their keys are in lower case.

        The partitioner's properties contain no login options.
        """
        name = options.get(PREFIX + _PARTITIONER)
        if name is None:
            return None
        properties = java_properties(options)
        remaining = {key: properties[key] for key in properties if not key.startswith(_LOGIN)}
        return cls(name=name.strip(), properties=remaining)

    def argument(self) -> dict[str, object]:
        """Return the part of a request to the shim that describes the partitioner."""
        return {"partitioner": self.name, "partitionerProperties": dict(self.properties)}


def java_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return all properties of a producer, under their Java names.

    The keys of `options` are in lower case. The result leaves out the partitioner, since each
    record already has a partition when the producer sends it.
    """
    return {
        name.removeprefix(PREFIX): text
        for name, text in options.items()
        if name.startswith(PREFIX) and name != PREFIX + _PARTITIONER
    }


def producer_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Translate the options that tune a producer to librdkafka's names; keys are in lower case.

    The result leaves out the partitioner, which only Java can use, and options that have no
    equivalent in librdkafka and do not change the written records. Raises SettingsError for options
    that a transaction forbids, or that the sink sets itself.
    """
    properties: dict[str, str] = {}
    for option, value in options.items():
        name = option.removeprefix(PREFIX)
        if name == option:
            continue
        if name in _NOT_FOR_SINK:
            raise SettingsError(
                f"this sink does not take the option {option}",
                cause=_NOT_FOR_SINK[name],
                fix="Remove it",
            )
        if name in _ONLY and value.strip().lower() not in _ONLY[name]:
            raise SettingsError(
                f"the option {option} must be {_ONLY[name][0]!r} for this sink",
                cause="Kafka's transactions need it",
                fix="Remove it",
            )
        if name in _ALIKE:
            properties[name] = value
        elif name in _RENAMED:
            properties[_RENAMED[name]] = value
        elif name == _BUFFER:
            properties["queue.buffering.max.kbytes"] = str(_kilobytes(option, value))
    return properties


def _kilobytes(option: str, value: str) -> int:
    try:
        return max(1, int(value) // 1024)
    except ValueError:
        raise SettingsError(
            f"the option {option} must be a number of bytes", fix="Correct it"
        ) from None
