"""The alerts, as docs/alerts.md has them; tests/examples holds that page to the rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tests.documents.markdown import DOCS


@dataclass(frozen=True)
class AlertSection:
    """One alert: how urgent it is, what it means, and what to type."""

    name: str
    severity: str
    meaning: str
    commands: tuple[str, ...]


@cache
def alert_sections() -> dict[str, AlertSection]:
    """All of the page, in its order, by their names."""
    text = (DOCS / "alerts.md").read_text()
    parts = re.split(r"^### (EoListener\w+)$", text, flags=re.MULTILINE)
    return {
        name: _section(name, said.partition("\n## ")[0])
        for name, said in zip(parts[1::2], parts[2::2], strict=True)
    }


def _section(name: str, text: str) -> AlertSection:
    severity, meaning = re.findall(r"\A\s*\((\w+)\) (.*?)(?:\n\n|```|\Z)", text, re.DOTALL)[0]
    commands = re.findall(r"^ *(eo-listener .*)$", text, re.MULTILINE)
    plain = " ".join(meaning.split())  # a colon at its end leads to the commands
    return AlertSection(name, severity, re.sub(r":$", ".", plain), tuple(commands))
