"""The `kafka.*` options of a source that say how to get into its cluster, in Java's names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from eo_listener.model.errors import SettingsError

PREFIX: Final = "kafka."
PROTOCOL: Final = "security.protocol"
ENDPOINT: Final = "ssl.endpoint.identification.algorithm"

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS: Final[tuple[Protocol, ...]] = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

PROVIDERS: Final = "config.providers"

_COUNT: Final = ("security.", "ssl.", "sasl.", PROVIDERS)
_DNS: Final = "client.dns.lookup"
_DNS_ALIKE: Final = frozenset({"use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"})

# librdkafka's, not Java's: Spark makes nothing of them, and here they would load code or run it.
_REFUSED: Final = frozenset(
    {"plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers"}
)
_NEVER: Final = ("sasl.kerberos.kinit.cmd",)  # librdkafka would give it to a shell
# When a client logs in again, and what a broker does with tokens: librdkafka does well without.
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
# What the user gives in librdkafka's names, and the options that say the same in Java's.
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
    """Why the cluster can only be reached with Java's own client; quotes no value."""


def chosen(source: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """The options that count, without their prefix; what `own` replaces is left out.

    `source` are all options of a reader, `own` the names of librdkafka's properties that the user
    gave. Raises SettingsError for what is dangerous here, and for what no client reads as meant.
    """
    given = {
        name.removeprefix(PREFIX): text for name, text in source.items() if name.startswith(PREFIX)
    }
    for name in _REFUSED & given.keys():
        raise SettingsError(
            f"the source option {PREFIX}{name} is never used",
            cause="it is no option of Spark's Kafka client, and here it would load foreign code",
            fix="leave it out",
        )
    replaced = tuple(_replaced_by(own))
    found = {
        name: text
        for name, text in given.items()
        if (name.startswith(_COUNT) or name == _DNS) and not name.startswith((*_NEVER, *replaced))
    }
    for name, text in found.items():
        if "\0" in text:
            raise SettingsError(
                f"the source option {PREFIX}{name} holds a NUL character",
                cause="librdkafka would take it for the end of the text",
                fix="correct the option",
            )
    return found


def _replaced_by(own: Iterable[str]) -> Iterable[str]:
    for name in own:
        for start, options in _REPLACED.items():
            if name.startswith(start):
                yield from options


def protocol(options: Mapping[str, str]) -> Protocol:
    """The security protocol. Raises SettingsError for an unknown one."""
    given = options.get(PROTOCOL, "PLAINTEXT").strip().upper()
    for known in PROTOCOLS:
        if given == known:
            return known
    raise SettingsError(
        f"the source option {PREFIX}{PROTOCOL} names no security protocol",
        cause="it may be misspelt",
        fix=f"use one of {', '.join(PROTOCOLS)}",
    )


def connections(options: Mapping[str, str]) -> dict[str, str]:
    """What both clients call alike and mean alike."""
    lookup = options.get(_DNS)
    return {_DNS: lookup} if lookup in _DNS_ALIKE else {}


def require_known(options: Iterable[str], start: str, known: Collection[str]) -> None:
    """Raise OnlyJava for an option of this kind that has no equal in librdkafka."""
    for name in sorted(options):
        if name.startswith(start) and name not in known and not name.startswith(_TUNING):
            raise OnlyJava(f"librdkafka has no equal for the source option {PREFIX}{name}")
