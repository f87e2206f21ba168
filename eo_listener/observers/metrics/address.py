"""Checks the address and the port for serving metrics."""

from __future__ import annotations

from typing import Final

from eo_listener.errors import SettingsError

LOOPBACK: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65535


def require_port(port: object, setting: str = "metrics_port") -> None:
    """Raise SettingsError unless `port` is a number from 0 to 65535."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _HIGHEST_PORT:
        raise SettingsError(
            f"{setting} must be from 0 to {_HIGHEST_PORT}, got {port!r}",
            fix="Give a port, or 0 for any free port",
        )


def require_address(address: object, setting: str = "metrics_address") -> None:
    """Raise SettingsError for an empty address, which would silently mean all interfaces."""
    if not isinstance(address, str) or not address.strip():
        raise SettingsError(
            f"{setting} must be a host name or an IP address, got {address!r}",
            cause="a variable may be unset; an empty address would mean all interfaces",
            fix=f"Give {LOOPBACK} for this machine only, or 0.0.0.0 for the whole network",
        )
