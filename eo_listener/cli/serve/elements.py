"""Builds HTML from elements, never from joined text, so that no text is read as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element, tostring

from eo_listener.cli.options import escaped

_LONG: Final = 200  # characters of a name


def node(tag: str, *children: Element | str | None, **attributes: str | None) -> Element:
    """Return an element; leave out children and attributes that are None.

    In an attribute's name, `cls` means `class`, and `_` means a hyphen.

    Invisible characters (control characters, marks that change the direction of writing) become
    escapes.
    """
    names = {key: "class" if key == "cls" else key.replace("_", "-") for key in attributes}
    present = {names[key]: escaped(value) for key, value in attributes.items() if value is not None}
    element = Element(tag, present)
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            element.append(child)
            last = child
        elif child is not None:
            text = escaped(child, keep="\n")
            if last is None:
                element.text = (element.text or "") + text
            else:
                last.tail = (last.tail or "") + text
    return element


def html(page: Element) -> bytes:
    """Return the HTML document of `page`."""
    return b"<!DOCTYPE html>\n" + tostring(page, encoding="unicode", method="html").encode()


def cut(text: str, length: int = _LONG) -> str:
    """Return `text`, or only its first `length` characters, since names may have any length."""
    return text if len(text) <= length else f"{text[:length]}... ({len(text):,} characters)"


def excess(count: int, shown: int, text: str, tag: str = "p") -> Element | None:
    """Return a line that counts the items that the page leaves out, or None if there are none."""
    return node(tag, f"and {count - shown:,} {text}") if count > shown else None


def number(value: float | None) -> str:
    """Format a number, or return `-` if it is None."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def definitions(texts: Mapping[str, str]) -> Element:
    """Return a list of names, each with its text."""
    entries = (node("div", node("dt", name), node("dd", text)) for name, text in texts.items())
    return node("dl", *entries)


def table(headings: list[str], rows: list[list[str | Element]], **attributes: str) -> Element:
    """Return a table that scrolls on its own if the screen is narrow."""
    head = node("tr", *(node("th", heading, scope="col") for heading in headings))
    body = [node("tr", *(node("td", cell) for cell in row)) for row in rows]
    grid = node("table", node("thead", head), node("tbody", *body), **attributes)
    return node("div", grid, cls="wide", tabindex="0")
