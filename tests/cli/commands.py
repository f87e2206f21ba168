"""Run commands that print one JSON document: in this process, or in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eo_listener import cli


def run_here(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    """Run a command in this process: its exit code, and its document."""
    code = cli.app([*map(str, words), "--json"], standalone_mode=False)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code or 0, document


def run_apart(folder: Path, *words: object) -> tuple[int, dict[str, Any]]:
    """Run a command in `folder`, with no part of this process's Spark."""
    environment = {key: value for key, value in os.environ.items() if "PYSPARK" not in key}
    ended = subprocess.run(
        [sys.executable, "-m", "eo_listener", *map(str, words), "--json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.stdout, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, document
