"""`spark-defaults.conf`, a file of Java properties."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from eo_listener.model.errors import SettingsError

_PAIR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read(file: Path) -> dict[str, str]:
    """Return its settings, values trimmed as Spark trims them; none when there is no file.

    Raises SettingsError when it is there and cannot be read.
    """
    try:
        return parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{file} cannot be read: {error}", fix="Make it a readable text file in UTF-8"
        ) from error


def parse(text: str) -> dict[str, str]:
    """Read the format of java.util.Properties: comments, escapes, lines that go on."""
    settings = {}
    for line in _logical_lines(text):
        pair = _PAIR.match(line)
        if pair is not None:
            settings[_unescaped(pair[1])] = _unescaped(pair[2]).strip()
    return settings


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    open_line = False
    for raw in text.splitlines():
        line = raw.lstrip()
        if not open_line and (not line or line[0] in "#!"):
            continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        body = line[:-1] if continues else line
        if open_line:
            lines[-1] += body
        else:
            lines.append(body)
        open_line = continues
    return lines


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _CONTROL.get(escape, escape)

    return _ESCAPE.sub(plain, text)
