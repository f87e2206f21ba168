"""Finds out, without writing, whether a table's location is writable."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from eo_listener.preflight.table_facts import Storage
from eo_listener.spark.checkpoint.location import shown


def storage_at(place: str) -> Storage:
    """Return the storage at the URI `place`.

    Its `writable` is None if the storage is not on this machine. If a local folder does not exist,
    the rights of its nearest existing parent count.
    """
    parts = urlsplit(place)
    if parts.scheme not in ("", "file"):
        return Storage(place=shown(place), writable=None)
    folder = Path(unquote(parts.path))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return Storage(place=str(folder), writable=os.access(folder, os.W_OK | os.X_OK))
