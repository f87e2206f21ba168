"""The few shapes that the generated documents are made of."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WIDTH = 130
WHOLE_WORDS: Final[dict[str, Any]] = {"break_long_words": False, "break_on_hyphens": False}


def anchor(heading: str) -> str:
    """What a heading is called in a link, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def link(heading: str, page: str = "") -> str:
    """A link to a heading, of this page where no other is named."""
    return f"[{heading}]({page}#{anchor(heading)})"


def wrapped(text: str, *, indent: str = "") -> str:
    """One paragraph, at the width of all documents; words that are longer stay whole."""
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent=indent, **WHOLE_WORDS)


def point(text: str) -> str:
    return wrapped(f"- {text}", indent="  ")


def block(lines: str | Iterable[str], language: str = "") -> str:
    """Code, which no rule of wrapping touches."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    return f"```{language}\n{text}\n```"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; a bar inside a cell would end it."""

    def drawn() -> Iterator[str]:
        yield "| " + " | ".join(head) + " |"
        yield "|" + "---|" * len(head)
        for row in rows:
            yield (
                "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in row) + " |"
            )

    return "\n".join(drawn())


def joined(parts: Iterable[str]) -> str:
    """All parts, with an empty line between two."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def plain(text: str) -> str:
    """A text of others in a table: nothing in it is Markdown."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("__", "\\_\\_")


def rewrapped(line: str) -> str:
    """A line of a template; a point that has grown too long is wrapped."""
    if len(line) <= WIDTH or not line.startswith("- "):
        return line
    return point(line.removeprefix("- ")) + "\n"
