"""The disasters in docs/how-to/audit.md, which readers search for the words of `audit`."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit.md"


def documented() -> dict[str, tuple[str, ...]]:
    """The words of `audit`, by what has happened, as the first two columns have them."""
    text = _PAGE.read_text().partition("## Disasters, and what repairs them")[2]
    rows = re.findall(r"^\| (?!what )(.*?) \| (.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    return {happened: tuple(re.findall(r"`(.*?)`", said)) for happened, said in rows}


def audit_says(happened: str) -> tuple[str, ...]:
    """The words of the one row that begins so."""
    (said,) = (said for row, said in documented().items() if row.startswith(happened))
    return said
