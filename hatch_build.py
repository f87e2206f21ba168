"""Refuse a wheel that does not carry exactly one shim jar.

hatchling leaves files out silently when .gitignore covers them; a wheel without the jar
would install, import, and fail only where Spark is told to load it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShimJarHook(BuildHookInterface):  # type: ignore[type-arg]  # the parameter is the builder's configuration, unused here
    """Checks `eo_listener/jars/` before a wheel is built; an editable install needs no jar."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if version != "editable":
            jars = sorted(Path(self.root, "eo_listener", "jars").glob("*.jar"))
            if len(jars) != 1:
                found = ", ".join(jar.name for jar in jars) or "none"
                raise RuntimeError(
                    f"a wheel carries exactly one shim jar in eo_listener/jars, found: {found}. "
                    "Run `make jar` (after `make clean` when there are several)."
                )
        build_data["pure_python"] = True
