"""Translates the options of Spark's own Kafka client into a cluster and its client's settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from eo_listener.client_config.kafka_options import (
    PREFIX,
    PROTOCOL,
    PROVIDERS,
    OnlyJava,
    client_options,
    connections,
    protocol,
)
from eo_listener.client_config.sasl import JAAS, login_module, require_https, sasl
from eo_listener.client_config.tls import KeyStore, tls
from eo_listener.client_config.validation import SERVERS
from eo_listener.errors import SettingsError

ClientKind = Literal["librdkafka", "java"]

_PLAINTEXT: Final = "PLAINTEXT"
_JAVA_PROVIDERS: Final = "security.providers"
_VARIABLE: Final = "${"  # the beginning of a placeholder for Java's config providers


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """The settings that a client needs to connect, apart from the servers.

    `properties` are properties of librdkafka. `stores` are key stores, which Java converts to
    further properties. If `client` is "java", only Java's own client can connect: then
    `java_reason` is the reason, and `properties` have Java's names.
    """

    properties: Mapping[str, str] = field(repr=False)
    stores: tuple[KeyStore, ...] = ()
    client: ClientKind = "librdkafka"
    java_reason: str | None = None


def translate(
    source: Mapping[str, str],
    *,
    own: Collection[str] = (),
    gssapi: bool = False,
    tokens: bool = False,
) -> ClientAccess:
    """Translate `source`, the options of a reader, by an allow-list.

    `source` has keys in lower case. `own` are the names of the librdkafka properties that the user
    gave; these properties replace options of `source`. `gssapi` is True if the installed librdkafka
    supports Kerberos. `tokens` is True if Spark has delegation tokens; Spark logs in with them if a
    source sets no security option. The result leaves out options that do not concern the
    connection. Raises SettingsError, which quotes no value, for dangerous options, and for options
    that neither librdkafka nor Java's client supports.
    """
    if PROTOCOL in own:
        return ClientAccess(properties={})
    options = client_options(source, own)
    _require_harmless(options)
    try:
        _require_no_java(options, own, tokens=tokens)
        return _by_librdkafka(options, own, gssapi=gssapi)
    except OnlyJava as reason:
        _require_nothing_own(own, reason)
        return ClientAccess(properties=options, client="java", java_reason=str(reason))


def _require_harmless(options: Mapping[str, str]) -> None:
    """Raise SettingsError for dangerous options, which no client may use."""
    if options.get(PROTOCOL, _PLAINTEXT).strip().upper() == _PLAINTEXT:
        return  # then neither client reads them
    require_https(options)
    if not options.get(PROVIDERS) or _VARIABLE not in options.get(JAAS, ""):
        login_module(options)


def _require_no_java(options: Mapping[str, str], own: Collection[str], *, tokens: bool) -> None:
    """Raise OnlyJava if Java classes or delegation tokens decide how Spark connects."""
    if options.get(PROVIDERS):
        raise OnlyJava(f"{PREFIX}{PROVIDERS} names Java classes that supply values")
    if tokens and not options.keys() & {PROTOCOL, JAAS} and not _has_security(own):
        raise OnlyJava("Spark has delegation tokens and knows their clusters")


def _by_librdkafka(
    options: Mapping[str, str], own: Collection[str], *, gssapi: bool
) -> ClientAccess:
    security = protocol(options)
    if security == _PLAINTEXT:
        return ClientAccess(properties=connections(options))
    if options.get(_JAVA_PROVIDERS):
        raise OnlyJava(f"{PREFIX}{_JAVA_PROVIDERS} names Java classes")
    properties = {PROTOCOL: security.lower(), **connections(options)}
    if security.startswith("SASL") and not any(name.startswith("sasl.") for name in own):
        properties |= sasl(options, gssapi=gssapi)
    stores: tuple[KeyStore, ...] = ()
    if security.endswith("SSL"):
        secured, stores = tls(options)
        properties |= secured
    return ClientAccess(properties=properties, stores=stores)


def _require_nothing_own(own: Collection[str], reason: OnlyJava) -> None:
    """Raise SettingsError if `own` has login properties, which Java's client could not use."""
    if _has_security(own):
        raise SettingsError(
            "the client settings given to the listener cannot be merged with those of the source",
            cause=str(reason),
            fix=f"give all settings (kafka={{...}}; follow: -X), including {PROTOCOL}, or none",
        ) from None


def _has_security(own: Collection[str]) -> bool:
    return any(name.startswith(("ssl.", "sasl.")) for name in own)


def principal(properties: Mapping[str, str], stores: Collection[KeyStore] = ()) -> str | None:
    """Return a client's name in ACLs, from its librdkafka `properties`, or None if unknown."""
    security = properties.get(PROTOCOL, "plaintext").lower()
    if security.startswith("sasl"):
        user = properties.get("sasl.username")
    elif security == "ssl" and (
        any(store.use == "key" for store in stores)
        or any(name.startswith(("ssl.certificate.", "ssl.keystore.")) for name in properties)
    ):
        user = None  # the broker's settings determine which name the certificate gives
    else:
        user = "ANONYMOUS"
    return None if user is None else f"User:{user}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Kafka cluster as a client sees it: the client's sorted properties.

    `properties` are properties of librdkafka. `stores` are key stores, which Java converts to
    further properties. If `client` is "java", only Java's own client can connect: then
    `java_reason` is the reason, and `properties` have Java's names.
    """

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    stores: tuple[KeyStore, ...] = field(default=(), repr=False)
    client: ClientKind = "librdkafka"
    java_reason: str | None = None

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], access: ClientAccess | None = None
    ) -> Cluster:
        """Build a cluster; equal arguments give equal clusters, which share a client.

        `access` is the translation of a source's options; `properties` override the properties of
        `access`.
        """
        access = access or ClientAccess(properties={})
        return cls(
            properties=tuple(sorted({**access.properties, **properties}.items())),
            stores=access.stores,
            client=access.client,
            java_reason=access.java_reason,
        )

    @property
    def servers(self) -> str:
        """The bootstrap servers: the only part of a cluster that is ever shown."""
        return dict(self.properties)[SERVERS]

    @property
    def principal(self) -> str | None:
        """The client's name in ACLs (`User:alice`), or None if unknown."""
        if self.client == "java":
            return None
        return principal(dict(self.properties), self.stores)

    def require_librdkafka(self, problem: str) -> None:
        """If only Java's client can log in, raise SettingsError with the text `problem`."""
        if self.client == "java":
            raise only_java(problem, self.java_reason)

    def __str__(self) -> str:
        return self.servers


def only_java(problem: str, reason: str | None) -> SettingsError:
    """Return the error with the text `problem`; `reason` says why librdkafka cannot log in."""
    return SettingsError(
        problem,
        cause=reason,
        fix="Name a broker listener that librdkafka can log in to (SASL PLAIN, SCRAM, "
        "OAUTHBEARER with a token endpoint, mutual TLS) and its kafka.* options; for "
        "Kerberos, use a confluent-kafka built with Kerberos, and a keytab",
    )
