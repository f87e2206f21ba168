"""Translates Java's `ssl.*` options to librdkafka's, and key stores to PEM."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from eo_listener.client_config.kafka_options import ENDPOINT, PREFIX, OnlyJava, require_known
from eo_listener.errors import FormatError, SettingsError

CERTIFICATES: Final = "CERTIFICATE"
KEY: Final = "PRIVATE KEY"

_MARKER: Final = re.compile(r"-+\s*(BEGIN|END)\s+([A-Z0-9 ]{1,40}?)\s*-+")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+=*")
_WIDTH: Final = 64


def in_lines(text: str, kind: str, option: str) -> str:
    """Return the PEM blocks of `kind` in `text`, with the line breaks that OpenSSL requires.

    Raises SettingsError, which quotes only the name `option`.
    """
    blocks = []
    opening: re.Match[str] | None = None
    for marker in _MARKER.finditer(text):
        if marker[1] == "BEGIN":
            opening = marker
        elif opening is not None and opening[2] == marker[2]:
            if marker[2].endswith(kind):
                blocks.append(_block(marker[2], text[opening.end() : marker.start()], option))
            opening = None
    if not blocks:
        raise _unreadable(option)
    return "".join(blocks)


def _block(label: str, body: str, option: str) -> str:
    if ":" in body:  # an encrypted key in an older format, whose headers keep their lines
        lines = body.strip().splitlines()
    else:
        packed = "".join(body.split())
        if not _BASE64.fullmatch(packed):
            raise _unreadable(option)
        lines = [packed[at : at + _WIDTH] for at in range(0, len(packed), _WIDTH)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


def _unreadable(option: str) -> SettingsError:
    return SettingsError(
        f"{option} holds no readable PEM text",
        cause="the text may be truncated, or be the name of a file",
        fix="give the text itself, from -----BEGIN to the end of the last -----END line",
    )


REQUEST: Final = "stores.pem"

Use = Literal["trust", "key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """A JKS or PKCS12 file, which the shim's function `REQUEST` converts to PEM in memory.

    `use` is the content of the file: "trust" for the authorities that the client trusts, "key" for
    the client's own key.
    """

    use: Use
    location: str
    type: str
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def argument(self) -> str:
        """Return the request to the shim as JSON, which contains secrets."""
        return json.dumps(
            {
                "use": self.use,
                "location": self.location,
                "type": self.type,
                "password": self.password,
                "keyPassword": self.key_password,
            }
        )

    def properties(self, answer: str) -> Mapping[str, str]:
        """Return librdkafka's properties from the shim's `answer`.

        Raises FormatError, which quotes nothing of the answer.
        """
        match _document(answer):
            case {"v": 1, "certificates": str(certificates), "key": None | str() as key}:
                pass
            case _:
                raise FormatError(
                    f"cannot read the shim's answer for the key store {self.location}",
                    cause="the jar and this package may have different versions",
                    fix="pass the jar that `eo-listener jar` names to Spark",
                )
        chain = in_lines(certificates, CERTIFICATES, self.location)
        if self.use == "trust":
            return {"ssl.ca.pem": chain}
        return {
            "ssl.certificate.pem": chain,
            "ssl.key.pem": in_lines(key or "", KEY, self.location),
        }


def _document(answer: str) -> object:
    try:
        return json.loads(answer)
    except ValueError:
        return None


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


def tls(options: Mapping[str, str]) -> tuple[dict[str, str], tuple[KeyStore, ...]]:
    """Return the properties for the `ssl.*` options, and the key stores that Java must convert.

    Raises OnlyJava if only Java's client supports the options, and SettingsError if no client
    supports them.
    """
    require_known(options, "ssl.", _KNOWN)
    properties = _endpoint(options)
    stores: list[KeyStore] = []
    for part in (_trust(options), _own(options)):
        if isinstance(part, KeyStore):
            stores.append(part)
        else:
            properties |= part
    return properties, tuple(stores)


def _endpoint(options: Mapping[str, str]) -> dict[str, str]:
    algorithm = options.get(ENDPOINT, "https").strip().lower()
    if algorithm not in _ENDPOINTS:
        raise OnlyJava(f"librdkafka does not support this {PREFIX}{ENDPOINT}")
    return {ENDPOINT: _ENDPOINTS[algorithm]}


def _trust(options: Mapping[str, str]) -> Mapping[str, str] | KeyStore:
    """Return the properties or the key store of the trusted authorities.

    If no option names authorities, librdkafka uses those of the machine.
    """
    text = options.get(f"{_TRUST}certificates")
    if text:
        pem = in_lines(text, CERTIFICATES, f"{PREFIX}{_TRUST}certificates")
        return {"ssl.ca.pem": pem}
    store = _store(options, _TRUST, "trust")
    if isinstance(store, KeyStore):
        return store
    return {"ssl.ca.location": store} if store else {}


def _own(options: Mapping[str, str]) -> Mapping[str, str] | KeyStore:
    """Return the properties or the key store of the client's own key, or {} if it has no key."""
    key = options.get(f"{_OWN}key")
    chain = options.get(f"{_OWN}certificate.chain")
    password = _named(_KEY_PASSWORD, options.get(_KEY_PASSWORD))
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
    # Java requires key and certificates in one file, which librdkafka accepts too.
    return (
        {"ssl.certificate.location": store, "ssl.key.location": store, **password} if store else {}
    )


def _named(name: str, value: str | None) -> dict[str, str]:
    return {name: value} if value else {}


def _store(options: Mapping[str, str], start: str, use: Use) -> KeyStore | str | None:
    """Return a key store that Java must read, the location of a PEM file, or None.

    Raises OnlyJava.
    """
    location = options.get(f"{start}location")
    if not location:
        return None
    kind = options.get(f"{start}type", _DEFAULT_TYPE).strip().upper()
    if kind == "PEM":
        return location
    if kind not in ("JKS", "PKCS12"):
        raise OnlyJava(f"librdkafka does not support this {PREFIX}{start}type")
    return KeyStore(
        use=use,
        location=location,
        type=kind,
        password=options.get(f"{start}password"),
        key_password=options.get(_KEY_PASSWORD) if use == "key" else None,
    )
