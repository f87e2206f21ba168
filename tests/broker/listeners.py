"""What a broker listens on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eo_listener.model.errors import SettingsError

MAIN: Final = "PLAINTEXT"
CONTROLLER: Final = "CONTROLLER"
HOST: Final = "127.0.0.1"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_ADDRESS = re.compile(r"[^\s:]+:\d{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A further listener, beside the plain one that every broker of ours has.

    `port` is that of the first node, each further node takes the next one; None takes free
    ones. `host` is the address of this machine that it listens at. `advertised` ("host:port", or
    one for each node) is where clients are sent instead: the address of a proxy in front.
    `properties` are this listener's own (`ssl.keystore.location`, `sasl.enabled.mechanisms`,
    `plain.sasl.jaas.config`) and are given the prefix `listener.name.<name>.`; they can hold
    secrets and are never shown.
    """

    name: str
    security_protocol: str = "PLAINTEXT"
    port: int | None = None
    host: str = HOST
    advertised: str | Sequence[str] | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raise SettingsError for what Kafka would refuse after a slow start, or misread."""
        if not _NAME.fullmatch(self.name) or self.name in (MAIN, CONTROLLER):
            raise SettingsError(
                f"A listener cannot be called {self.name!r}",
                fix=f"Use capitals, digits and _, and neither {MAIN} nor {CONTROLLER}",
            )
        if self.security_protocol not in PROTOCOLS:
            raise SettingsError(
                f"listener {self.name}: its protocol must be one of {', '.join(PROTOCOLS)}, "
                f"got {self.security_protocol!r}",
                fix="Give one of these",
            )
        for address in self._addresses:
            if not _ADDRESS.fullmatch(address):
                raise SettingsError(
                    f"Listener {self.name}: {address!r} cannot be advertised",
                    fix="Give host:port",
                )

    def advertised_by(self, node: int, port: int) -> str:
        """Return the address that node number `node` (from 1) advertises."""
        addresses = self._addresses
        if not addresses:
            return f"{self.host}:{port}"
        if node > len(addresses):
            raise SettingsError(
                f"Listener {self.name} advertises {len(addresses)} address(es), but there is a"
                f" node {node}",
                fix="Give one address for each node",
            )
        return addresses[node - 1]

    def prefixed(self) -> dict[str, str]:
        """Return its own properties under the names that server.properties wants."""
        prefix = f"listener.name.{self.name.lower()}."
        return {prefix + name: value for name, value in self.properties.items()}

    @property
    def _addresses(self) -> tuple[str, ...]:
        if self.advertised is None:
            return ()
        return (self.advertised,) if isinstance(self.advertised, str) else tuple(self.advertised)
