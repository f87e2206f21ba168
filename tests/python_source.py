"""Python source as syntax trees."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


def tree_of_text(text: str) -> ast.Module:
    """What `ast.parse` returns, with no garbage collected meanwhile.

    CPython before 3.11.9 and 3.12.3 counts how deep a tree is for all threads together
    (https://github.com/python/cpython/issues/106905): where a finalizer, such as py4j's, lets
    another thread run that formats a traceback, which parses too, it raises SystemError.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if enabled:
            gc.enable()


@cache
def tree_of(path: Path) -> ast.Module:
    """A file, parsed once for all tests of a process: nobody may change it."""
    return tree_of_text(path.read_text())
