"""Each picture is shown in README or on a page, and needs no web."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.documents.markdown import DOCS, ROOT
from tests.documents.pictures import PICTURES


@pytest.mark.parametrize("path", sorted(PICTURES.iterdir()), ids=lambda path: path.name)
def test_each_picture_is_shown(path: Path) -> None:
    """README or a page shows it, with a text for readers who cannot see it."""
    shown = rf"!\[[^\]]{{20,}}\]\([\w./]*pictures/{re.escape(path.name)}\)"
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    assert [page for page in pages if re.search(shown, page.read_text())]


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_needs_no_web(path: Path) -> None:
    """It is small, and names no address but SVG's own namespace."""
    text = path.read_text()
    assert len(text) < 100_000
    drawn = re.sub(r"<!--.*?-->", "", text)
    assert set(re.findall(r"\w+://[\w.]+", drawn)) == {"http://www.w3.org"}
    ET.fromstring(text)  # noqa: S314  # our own


def test_the_screenshot_is_small() -> None:
    """It is a PNG that a phone on a slow line can load."""
    content = (PICTURES / "page.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) < 150_000
