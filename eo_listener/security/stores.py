"""Key stores that only Java reads, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from eo_listener.errors import FormatError
from eo_listener.security.pem import CERTIFICATES, KEY, in_lines

REQUEST: Final = "stores.pem"

Use = Literal["trust", "key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
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
        """What librdkafka is told, from Java's answer. Raises FormatError, which quotes nothing."""
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
