"""The version line that the files of a checkpoint begin with: `v1`."""

from __future__ import annotations

import re

from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable

_VERSION = re.compile(r"v([1-9][0-9]{0,8})")


def check_version(line: str, *, newest: int, whole: bool) -> int:
    """Return the version that a first line names. Raises Unreadable.

    `whole` is False where no second line follows it: then the file was cut.
    """
    found = _VERSION.fullmatch(line)
    if not whole and (found or line in {"", "v"}):
        raise Unreadable(FileFindingKind.CUT, "it ends within its first line")
    if found is None:
        raise Unreadable(FileFindingKind.GARBLED, "its first line names no version")
    version = int(found[1])
    if version > newest:
        raise Unreadable(FileFindingKind.TOO_NEW, f"v{version}, known are v1 to v{newest}")
    return version
