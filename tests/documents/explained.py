"""What a docstring says to whoever reads it at night: meaning, cause, fix, and what to type."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_LABELS = ("Cause", "Fix", "Type")


@dataclass(frozen=True)
class Explained:
    """The parts of a docstring; `commands` are its lines that begin with `Type:`."""

    meaning: str
    cause: str = ""
    fix: str = ""
    commands: tuple[str, ...] = field(default=())


def explain(docstring: str) -> Explained:
    """Take a docstring apart; a label that stands twice, but for Type, is a mistake."""
    text = inspect.cleandoc(docstring)
    first, *labelled = re.split(rf"^(?=(?:{'|'.join(_LABELS)}): )", text, flags=re.MULTILINE)
    found: dict[str, list[str]] = {label: [] for label in _LABELS}
    for part in labelled:
        label, _, said = part.partition(": ")
        found[label].append(" ".join(said.split()))
    assert len(found["Cause"]) < 2, docstring
    assert len(found["Fix"]) < 2, docstring
    return Explained(
        meaning=first.strip(),
        cause="".join(found["Cause"]),
        fix="".join(found["Fix"]),
        commands=tuple(found["Type"]),
    )
