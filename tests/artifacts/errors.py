"""The error of a download."""

from __future__ import annotations

from eo_listener.model.errors import UnavailableError


class DownloadError(UnavailableError):
    """An artifact could not be fetched, or its checksum is wrong."""
