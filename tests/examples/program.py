"""An example as somebody runs it: a program of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.processes import finished
from tests.spark_session import submit_environment

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, EXAMPLES / name, *arguments]
    return finished(command, cwd=folder, env=submit_environment())
