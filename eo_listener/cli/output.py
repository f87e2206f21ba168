"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `main`; rich would end the program with 1, which means a finding here."""
        raise  # noqa: PLE0704  # rich calls this while it handles the BrokenPipeError


def console() -> Console:
    """A console on stdout: colours only on a terminal, wide lines elsewhere.

    Square brackets are text: names of groups, topics and queries may hold them.
    """
    width = None if sys.stdout.isatty() else 200
    return _Console(width=width, highlight=False, markup=False, emoji=False)


def print_json(value: object) -> None:
    """Print one JSON document on a line of its own."""
    print(json.dumps(value, ensure_ascii=False), flush=True)
