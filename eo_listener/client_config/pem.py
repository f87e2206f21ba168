"""PEM texts: Java reads them with any white space in them, OpenSSL only in lines."""

from __future__ import annotations

import re
from typing import Final

from eo_listener.model.errors import SettingsError

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
