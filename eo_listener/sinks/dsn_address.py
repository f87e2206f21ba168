"""Shows a PostgreSQL connection string without secrets. No I/O; also imported on executors."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_NO_SECRETS: Final = frozenset(
    {
        *("host", "hostaddr", "port", "dbname", "user", "options", "service", "passfile"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"),
    }
)
"""The parameters of a dsn that may be shown."""


def shown_dsn(dsn: str) -> str:
    """Return `dsn` without secrets, or `postgresql://...` if it is not a URI or has a fragment."""
    parts = urlsplit(dsn)
    if "://" not in dsn or parts.fragment:
        return "postgresql://..."
    login, at, hosts = parts.netloc.rpartition("@")
    pairs = [pair for pair in parts.query.split("&") if pair.partition("=")[0] in _NO_SECRETS]
    query = f"?{'&'.join(pairs)}" if pairs else ""
    return f"{parts.scheme}://{login.partition(':')[0]}{at}{hosts}{parts.path}{query}"
