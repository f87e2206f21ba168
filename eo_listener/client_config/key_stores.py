"""Key stores that only Java reads, turned into PEM for librdkafka."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from eo_listener.model.errors import FormatError, SettingsError

CERTIFICATES: Final = "CERTIFICATE"
KEY: Final = "PRIVATE KEY"

_MARKER: Final = re.compile(r"-+\s*(BEGIN|END)\s+([A-Z0-9 ]{1,40}?)\s*-+")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+=*")
_WIDTH: Final = 64


def in_lines(text: str, kind: str, option: str) -> str:
    """The blocks of `kind` in `text`, in the lines that OpenSSL wants.

    Raises SettingsError, which quotes nothing but the name of the option.
    """
    blocks = []
    begun: re.Match[str] | None = None
    for marker in _MARKER.finditer(text):
        if marker[1] == "BEGIN":
            begun = marker
        elif begun is not None and begun[2] == marker[2]:
            if marker[2].endswith(kind):
                blocks.append(_block(marker[2], text[begun.end() : marker.start()], option))
            begun = None
    if not blocks:
        raise _unreadable(option)
    return "".join(blocks)


def _block(label: str, body: str, option: str) -> str:
    if ":" in body:  # the headers of an older kind of encrypted key, which need their lines
        lines = body.strip().splitlines()
    else:
        packed = "".join(body.split())
        if not _BASE64.fullmatch(packed):
            raise _unreadable(option)
        lines = [packed[at : at + _WIDTH] for at in range(0, len(packed), _WIDTH)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


def _unreadable(option: str) -> SettingsError:
    return SettingsError(
        f"{option} holds no PEM text that can be read",
        cause="it may have been cut short, or hold the name of a file",
        fix="give the text itself, from -----BEGIN to the end of the last -----END line",
    )


REQUEST: Final = "stores.pem"

Use = Literal["trust", "key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """A JKS or PKCS12 file, to be turned into PEM by Java (`REQUEST`, in memory).

    `use` says what it is to the client: the authorities it trusts, or its own key.
    """

    use: Use
    location: str
    type: str
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def argument(self) -> str:
        """The request, as JSON. It holds secrets."""
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
        """librdkafka's properties, from Java's answer. Raises FormatError, which quotes nothing."""
        match _document(answer):
            case {"v": 1, "certificates": str(certificates), "key": None | str() as key}:
                pass
            case _:
                raise FormatError(
                    f"the shim's answer for the key store {self.location} is not understood",
                    cause="the jar and this package may be of different versions",
                    fix="give Spark the jar that `eo-listener jar` names",
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
