"""Programs that tests run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any


def finished(
    words: Sequence[object], *, check: bool = False, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, and capture what it prints."""
    how = {"capture_output": True, "text": True, "timeout": 200, **how}
    answer: subprocess.CompletedProcess[str] = subprocess.run(
        [*map(str, words)], check=check, **how
    )
    return answer
