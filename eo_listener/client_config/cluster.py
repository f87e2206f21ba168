"""A Kafka cluster as a client sees it: equal settings are one cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eo_listener.client_config.tls import KeyStore
from eo_listener.client_config.translate import ClientAccess, ClientKind, principal
from eo_listener.client_config.validation import SERVERS
from eo_listener.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Kafka cluster as a client sees it: the client's properties, in sorted order.

    They are librdkafka's, to which `stores` add some once Java has read them; or, where the
    `client` is "java", those of Java's own client, for the reason in `why_java`.
    """

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    stores: tuple[KeyStore, ...] = field(default=(), repr=False)
    client: ClientKind = "librdkafka"
    why_java: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str], access: ClientAccess | None = None) -> Cluster:
        """Build from a mapping; equal mappings give equal clusters, and one client.

        `access` is what a source's options were translated to; `properties` go before its own.
        """
        access = access or ClientAccess(properties={})
        return cls(
            properties=tuple(sorted({**access.properties, **properties}.items())),
            stores=access.stores,
            client=access.client,
            why_java=access.why_java,
        )

    @property
    def servers(self) -> str:
        """The bootstrap servers: the only part of a cluster that is ever shown."""
        return dict(self.properties)[SERVERS]

    @property
    def principal(self) -> str | None:
        """How ACLs name the client (`User:alice`), None where that cannot be known from here."""
        if self.client == "java":
            return None
        return principal(dict(self.properties), self.stores)

    def require_librdkafka(self, problem: str) -> None:
        """Raise SettingsError, with this `problem`, where only Java's client can log in."""
        if self.client == "java":
            raise only_java(problem, self.why_java)

    def __str__(self) -> str:
        return self.servers


def only_java(problem: str, why: str | None) -> SettingsError:
    """Return the error for a `problem`: librdkafka cannot log in, for the reason `why`."""
    return SettingsError(
        problem,
        cause=why,
        fix="Name a listener of the brokers that librdkafka can log in to (SASL PLAIN, SCRAM, "
        "OAUTHBEARER with a token endpoint, mutual TLS), and its kafka.* options; for Kerberos, a "
        "confluent-kafka that was built with it, and a keytab",
    )
