"""Checks if files can be written in a table's place, as far as that shows without writing."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from eo_listener.preflight.table_facts import Storage
from eo_listener.spark.checkpoint.location import shown


def storage_at(place: str) -> Storage:
    """Look at a place that has a scheme; only that of files on this machine says who may write."""
    parts = urlsplit(place)
    if parts.scheme not in ("", "file"):
        return Storage(place=shown(place), writable=None)
    folder = Path(unquote(parts.path))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return Storage(place=str(folder), writable=os.access(folder, os.W_OK | os.X_OK))
