"""What a line of COPY says, read back; and the names of the columns in which lines travel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LINE: Final = "line"
ROW: Final = "eo_row"


def decoded(line: bytes, names: Sequence[str]) -> dict[str, str | None]:
    """Return a line of COPY's text format as what it says of each column.

    Bytes that are no UTF-8 are shown as escapes.
    """
    fields = line.decode("utf-8", "backslashreplace").removesuffix("\n").split("\t")
    return {
        name: None if field == "\\N" else _unescaped(field)
        for name, field in zip(names, fields, strict=True)
    }


def _unescaped(field: str) -> str:
    parts = field.split("\\\\")  # what is left of a backslash in a part begins another escape
    return "\\".join(
        part.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t") for part in parts
    )
