"""For which names a server answers.

A page of somebody else's could have its own name resolve to 127.0.0.1 (DNS rebinding), and then
read what is served here as if it were its own. Its name is in the header Host, which no page can
change.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from eo_listener.errors import SettingsError

_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:\[\]/@]+))(?::\d{1,5})?")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class AllowedHosts:
    """This machine's own names, the address that is listened on, and `names`.

    If the server listens on all addresses, any address is allowed: only names can be made to point
    elsewhere. Raises SettingsError for an invalid name.
    """

    def __init__(self, address: str, names: Iterable[str] = ()) -> None:
        for name in names:
            if not _NAME.fullmatch(name) and not _is_address(name):
                raise SettingsError(
                    f"--allow-host must be a host name, got {name!r}",
                    fix="Write it as in the browser, without scheme or port: lag.example.com",
                )
        self._every = _is_wildcard(address)
        self._names = {_plain(name) for name in (*_LOCAL, address, *names)}

    def allows(self, header: str) -> bool:
        """Return True if a request with this header is for us; its port does not matter."""
        match = _HOST.fullmatch(header.strip())
        if match is None:
            return False
        name = match["six"] or match["name"]
        return _plain(name) in self._names or (self._every and _is_address(name))


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_wildcard(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
