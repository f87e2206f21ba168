"""README has each of the pictures, and they need no web."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.documents.markdown import DOCS, ROOT
from tests.documents.pictures import PICTURES


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
    assert re.search(shown % "../", (DOCS / "how-to" / "serve.md").read_text())
