"""An example as somebody runs it: a program of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark_session import submit_environment

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an example in a folder, and wait for its end."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=folder,
        env=submit_environment(),
    )
