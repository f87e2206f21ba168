"""Pictures of a terminal: how they are made, and that README has each of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.documents.markdown import DOCS, ROOT
from tests.documents.pictures import PICTURES
from tests.documents.terminal import as_svg, shown

LIVE = """
import os, sys
from rich.console import Console
from rich.live import Live
from rich.text import Text
assert os.get_terminal_size(1) == (60, 20)
with Live(console=Console(), auto_refresh=False) as live:
    for number in range(3):
        live.update(Text(f"line\\nnumber {number}", style="green"), refresh=True)
sys.exit(3)
"""


def test_a_program_is_shown_as_on_a_terminal(tmp_path: Path) -> None:
    """With its size, its colours, each picture that it drew, and its exit status."""
    seen: list[str] = []
    found = shown(
        [sys.executable, "-c", LIVE],
        columns=60,
        lines=20,
        folder=tmp_path,
        environment={},
        watch=seen.append,
    )
    assert found.status == 3, found.text
    assert [f"number {n}" in frame for n, frame in enumerate(found.frames[:3])] == [True] * 3
    assert "".join(seen) == found.text
    assert "\x1b[32m" in found.frames[1]


def test_a_picture_has_colours_and_needs_no_web() -> None:
    """Text stays text; the same output gives the same picture; a markup of rich is none here."""
    made = as_svg("eo-listener x", "\x1b[31mlost [bold]1[/]\x1b[0m\r\n", columns=40, name="n")
    assert made == as_svg(
        "eo-listener x", "\x1b[31mlost [bold]1[/]\x1b[0m\r\n", columns=40, name="n"
    )
    said = "".join(ET.fromstring(made).itertext()).replace("\xa0", " ")  # noqa: S314  # our own
    assert "$ eo-listener x" in said
    assert "lost [bold]1[/]" in said
    assert "url(http" not in made
    assert "@font-face" not in made


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_each_picture_is_shown(path: Path) -> None:
    """README has it, with a text for who cannot see it; it is small, and needs no web."""
    text = path.read_text()
    assert re.search(
        rf"!\[[^\]]{{20,}}\]\(docs/pictures/{path.name}\)", (ROOT / "README.md").read_text()
    )
    assert len(text) < 100_000
    drawn = re.sub(r"<!--.*?-->", "", text)
    assert set(re.findall(r"\w+://[\w.]+", drawn)) == {"http://www.w3.org"}  # SVG's own name
    ET.fromstring(text)  # noqa: S314  # our own


def test_the_page_is_shown() -> None:
    """In README and where it is explained, with a text for who cannot see it; it is small."""
    found = (PICTURES / "page.png").read_bytes()
    assert found.startswith(b"\x89PNG")
    assert len(found) < 150_000
    shown = rf"!\[[^\]]{{20,}}\]\(%s{PICTURES.name}/page\.png\)"
    assert re.search(shown % "docs/", (ROOT / "README.md").read_text())
    assert re.search(shown % "", (DOCS / "serve.md").read_text())
