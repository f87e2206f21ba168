"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys

from rich.console import Console


def console() -> Console:
    """A console on stdout: colours only on a terminal, lines never wrapped elsewhere."""
    plain = not sys.stdout.isatty()
    return Console(soft_wrap=plain, width=None if not plain else 200, highlight=False)


def print_json(value: object) -> None:
    """Print one JSON document on a line of its own."""
    print(json.dumps(value, ensure_ascii=False), flush=True)
