"""Processes that stand still in mid-work, and go on when others have moved on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import final

from tests.processes import Program

ROOT = Path(__file__).parents[2]


@final
class Puppet(Program):
    """A Python program."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] = MappingProxyType({}),  # added to ours
        within: Sequence[str] = (),  # words before the command, as for a network's namespace
    ) -> None:
        words = [*within, sys.executable, "-m", module, *arguments]
        super().__init__(words, cwd=ROOT, env={**os.environ, **environment})
