"""Translates librdkafka's properties to Java's, for commands that use both clients.

This is the reverse of the module `cluster`, for the properties that -X passes to a command. The
translation leaves out options that only tune a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eo_listener.client_config.kafka_options import ENDPOINT, PROTOCOL
from eo_listener.client_config.sasl import JAAS, PASSWORD_MODULES, LoginModule
from eo_listener.client_config.validation import SERVERS
from eo_listener.errors import SettingsError

_PASSWORDS: Final = {"sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms"}
_TRUST: Final = {"ssl.ca.location", "ssl.ca.pem"}
_OWN: Final = {
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
}
_STORE: Final = {"ssl.keystore.location", "ssl.keystore.password"}
_KNOWN: Final = _PASSWORDS | _TRUST | _OWN | _STORE | {PROTOCOL, ENDPOINT}
_LOGIN: Final = ("sasl.", "ssl.", "enable.ssl.", "security.", "oauthbearer_", "enable.sasl.")
_PKCS8: Final = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")


def java_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties with which a client connects, and read the files that they name.

    Raises SettingsError, which quotes no value, for a login property that Java's client does not
    have, and for a file that cannot be read.
    """
    for name in properties:
        if name.startswith(_LOGIN) and name not in _KNOWN:
            raise SettingsError(
                f"-X {name} cannot be passed to Kafka's Java client, which this command uses to "
                "read transactions",
                cause="the Java client has no such setting",
                fix=f"Remove it; possible settings are: {', '.join(sorted(_KNOWN))}",
            )
    protocol = properties.get(PROTOCOL, "plaintext").strip().upper()
    translated = {SERVERS: properties[SERVERS], PROTOCOL: protocol}
    if protocol.startswith("SASL"):
        translated |= _sasl(properties)
    if protocol.endswith("SSL"):
        translated |= {**_trust(properties), **_own(properties), ENDPOINT: _endpoint(properties)}
    return translated


def _sasl(properties: Mapping[str, str]) -> dict[str, str]:
    configured = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
    mechanism = configured.strip().upper()
    module = PASSWORD_MODULES.get(mechanism)
    if module is None:
        raise SettingsError(
            f"this command logs in with {', '.join(PASSWORD_MODULES)} only",
            cause="it uses Kafka's Java client, which needs other settings for other mechanisms",
            fix="Give -X sasl.mechanism, sasl.username and sasl.password of a user that can "
            "log in with one of these",
        )
    login = {
        "username": properties.get("sasl.username", ""),
        "password": properties.get("sasl.password", ""),
    }
    return {"sasl.mechanism": mechanism, JAAS: LoginModule(name=module, options=login).text()}


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    pem = _text(properties, "ssl.ca.pem", "ssl.ca.location")
    if pem is None:
        return {}  # then each client trusts its default: the system's authorities, or Java's
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return Java's properties for the client's own certificate and key."""
    if "ssl.keystore.location" in properties:
        store = {name: properties[name] for name in _STORE if name in properties}
        return {"ssl.keystore.type": "PKCS12", **store}
    chain = _text(properties, "ssl.certificate.pem", "ssl.certificate.location")
    key = _text(properties, "ssl.key.pem", "ssl.key.location")
    if chain is None or key is None:
        return {}
    if not any(begin in key for begin in _PKCS8):
        raise SettingsError(
            "Kafka's Java client cannot read the key of -X ssl.key.*",
            cause="it reads PKCS#8 only: BEGIN PRIVATE KEY or BEGIN ENCRYPTED PRIVATE KEY",
            fix="Convert it: openssl pkcs8 -topk8 -in KEY -out NEW -nocrypt",
        )
    pem = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }
    if properties.get("ssl.key.password"):
        pem["ssl.key.password"] = properties["ssl.key.password"]
    return pem


def _endpoint(properties: Mapping[str, str]) -> str:
    algorithm = properties.get(ENDPOINT, "https").strip().lower()
    return "" if algorithm == "none" else algorithm


def _text(properties: Mapping[str, str], inline: str, location: str) -> str | None:
    """Return the PEM text in the property `inline`, or in the file named by `location`, or None."""
    if inline in properties:
        return properties[inline]
    if location not in properties:
        return None
    try:
        return Path(properties[location]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(
            f"cannot read the file of -X {location}: {reason}", fix="Give one file in PEM"
        ) from None
