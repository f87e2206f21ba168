"""Java's `ssl.*` options in librdkafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from eo_listener.client_config.kafka_options import ENDPOINT, PREFIX, OnlyJava, require_known
from eo_listener.client_config.key_stores import CERTIFICATES, KEY, KeyStore, Use, in_lines
from eo_listener.model.errors import SettingsError

_TRUST: Final = "ssl.truststore."
_OWN: Final = "ssl.keystore."
_KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105  # the name of an option
_KNOWN: Final = frozenset(
    {
        ENDPOINT,
        _KEY_PASSWORD,
        *(f"{_TRUST}{name}" for name in ("certificates", "location", "password", "type")),
        *(f"{_OWN}{name}" for name in ("certificate.chain", "key", "location", "password", "type")),
    }
)
_DEFAULT_TYPE: Final = "JKS"
_ENDPOINTS: Final = {"": "none", "https": "https"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS of a client; `stores` are still to become further properties."""

    properties: Mapping[str, str] = field(repr=False)
    stores: tuple[KeyStore, ...]


def tls(options: Mapping[str, str]) -> Tls:
    """Translate. Raises OnlyJava, and SettingsError where there is nothing to translate to."""
    require_known(options, "ssl.", _KNOWN)
    parts = (_trust(options), _own(options))
    properties = _endpoint(options)
    for part in parts:
        if not isinstance(part, KeyStore):
            properties |= part
    return Tls(
        properties=properties, stores=tuple(part for part in parts if isinstance(part, KeyStore))
    )


def _endpoint(options: Mapping[str, str]) -> dict[str, str]:
    given = options.get(ENDPOINT, "https").strip().lower()
    if given not in _ENDPOINTS:
        raise OnlyJava(f"librdkafka does not know this {PREFIX}{ENDPOINT}")
    return {ENDPOINT: _ENDPOINTS[given]}


def _trust(options: Mapping[str, str]) -> Mapping[str, str] | KeyStore:
    """Who is believed; nothing given leaves it to the machine's own authorities."""
    text = options.get(f"{_TRUST}certificates")
    if text:
        pem = in_lines(text, CERTIFICATES, f"{PREFIX}{_TRUST}certificates")
        return {"ssl.ca.pem": pem}
    store = _store(options, _TRUST, "trust")
    if isinstance(store, KeyStore):
        return store
    return {"ssl.ca.location": store} if store else {}


def _own(options: Mapping[str, str]) -> Mapping[str, str] | KeyStore:
    """The client's own key."""
    key = options.get(f"{_OWN}key")
    chain = options.get(f"{_OWN}certificate.chain")
    password = _named("ssl.key.password", options.get(_KEY_PASSWORD))
    if key or chain:
        if not key or not chain:
            raise SettingsError(
                f"the source options give half of a client's key: {PREFIX}{_OWN}key and "
                f"{PREFIX}{_OWN}certificate.chain belong together",
                cause="one of them is missing or empty",
                fix="give both",
            )
        return {
            "ssl.certificate.pem": in_lines(
                chain, CERTIFICATES, f"{PREFIX}{_OWN}certificate.chain"
            ),
            "ssl.key.pem": in_lines(key, KEY, f"{PREFIX}{_OWN}key"),
            **password,
        }
    store = _store(options, _OWN, "key")
    if isinstance(store, KeyStore):
        if store.type == "PKCS12":
            secret = _named(f"{_OWN}password", store.password)
            return {f"{_OWN}location": store.location, **secret}
        return store
    # Java wants key and certificates in one file, and so may librdkafka have it.
    return (
        {"ssl.certificate.location": store, "ssl.key.location": store, **password} if store else {}
    )


def _named(name: str, value: str | None) -> dict[str, str]:
    return {name: value} if value else {}


def _store(options: Mapping[str, str], start: str, use: Use) -> KeyStore | str | None:
    """A store that Java must read, the location of a PEM file, or nothing. Raises OnlyJava."""
    location = options.get(f"{start}location")
    if not location:
        return None
    kind = options.get(f"{start}type", _DEFAULT_TYPE).strip().upper()
    if kind == "PEM":
        return location
    if kind not in ("JKS", "PKCS12"):
        raise OnlyJava(f"librdkafka does not know this {PREFIX}{start}type")
    return KeyStore(
        use=use,
        location=location,
        type=kind,
        password=options.get(f"{start}password"),
        key_password=options.get(_KEY_PASSWORD) if use == "key" else None,
    )
