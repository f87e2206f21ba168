"""Programs with a Spark of their own, and forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[2]


def run_program(
    program: str,
    *words: object,
    environment: Mapping[str, str] = MappingProxyType({}),
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run the text of a program, which can import the tests, to its end."""
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        env={**os.environ, **python, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def holds_in_a_fork(is_so: Callable[[], bool]) -> bool:
    """Whether a forked child finds that it is so."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if is_so() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
