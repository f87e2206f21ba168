"""Checks that a client's names, addresses and properties reach Kafka unchanged.

A client written in C takes a NUL for the end of a text, and so would use a different group if a
group's name contains a NUL. For a text that cannot be written as UTF-8, confluent-kafka ends the
whole process.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from eo_listener.errors import SettingsError

SERVERS: Final = "bootstrap.servers"

_NAMES: Final = frozenset({"group.id", "group.instance.id", "transactional.id"})
_PORT: Final = re.compile(r":(\d+)\s*$")
_PORTS: Final = range(1, 65536)
_ENCODING: Final = (
    "it comes from a terminal, file or variable in another encoding (Latin-1), or this process has "
    "a locale without UTF-8"
)
_FIX_ENCODING: Final = "Write it in UTF-8; with LANG=C, set PYTHONUTF8=1"
_FIX_NAME: Final = "Correct the name; a variable in it may have extra characters"


def require_name(kind: str, name: str) -> None:
    """Raise SettingsError for an invalid name of a group or topic.

    A name is invalid if it is not valid UTF-8, contains a control character, or begins or ends with
    a space.
    """
    if is_printable_ascii(name) and name == name.strip():
        return  # nearly every name; this function runs at every event
    if not _is_utf8(name):
        raise SettingsError(
            f"{kind} {name!r} is not valid UTF-8", cause=_ENCODING, fix=_FIX_ENCODING
        )
    if any(unicodedata.category(letter) == "Cc" for letter in name):
        raise SettingsError(
            f"{kind} {name!r} contains a control character",
            cause="a NUL ends the name for Kafka's client, and other control characters are "
            "invisible in every tool",
            fix=_FIX_NAME,
        )
    if name != name.strip():
        raise SettingsError(
            f"{kind} {name!r} begins or ends with a space",
            cause="Kafka treats it as a different name from the one without the space",
            fix=_FIX_NAME,
        )


def require_property(name: str, value: object) -> None:
    """Raise SettingsError, which quotes no value, if a client would not get the whole property."""
    if not _is_utf8(name) or "\0" in name:
        raise SettingsError(
            f"a Kafka client property has the invalid name {name!r}", fix="Correct the property"
        )
    if not isinstance(value, str):
        return
    if name in _NAMES:
        require_name(name, value)
    if not _is_utf8(value):
        raise SettingsError(
            f"the value of the Kafka client property {name} is not valid UTF-8",
            cause=_ENCODING,
            fix=_FIX_ENCODING,
        )
    if "\0" in value:
        raise SettingsError(
            f"the value of the Kafka client property {name} contains a NUL character",
            cause="Kafka's client would take it for the end of the value",
            fix="Correct the property",
        )
    if name == SERVERS:
        require_ports(value)


def require_ports(servers: str) -> None:
    """Raise SettingsError for an address with a port out of range.

    librdkafka would connect to a different port, since it keeps only the lower 16 bits of the
    number.
    """
    for server in servers.split(","):
        port = _PORT.search(server)
        if port is not None and int(port[1]) not in _PORTS:
            raise SettingsError(
                f"the address {server.strip()!r} has no valid port",
                cause=f"ports range from {_PORTS[0]} to {_PORTS[-1]}",
                fix=f"Correct {SERVERS}",
            )


def is_printable_ascii(text: str) -> bool:
    """Return True if C's `isprint` accepts every character in any locale."""
    return text.isascii() and text.isprintable()


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: Python's form of a byte that is not UTF-8
        return False
    return True
