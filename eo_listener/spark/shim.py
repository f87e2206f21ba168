"""Where the shim is: the jar for Spark's JVM that comes with this package."""

from __future__ import annotations

from pathlib import Path

from eo_listener.model.errors import UnavailableError


def jar() -> Path:
    """Return the path of the jar. Raises UnavailableError when there is not exactly one."""
    folder = Path(__file__).parents[1] / "jars"
    jars = sorted(folder.glob("eo-listener-shim-*.jar"))
    if len(jars) == 1:
        return jars[0]
    found = ", ".join(file.name for file in jars)
    raise UnavailableError(
        f"{folder} holds several shim jars: {found}" if jars else f"No shim jar in {folder}",
        cause="every build leaves one" if jars else "it has not been built in this checkout",
        fix="In a checkout: make jar; else: pip install --force-reinstall eo-listener",
    )
