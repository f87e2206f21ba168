"""A connection string of PostgreSQL as a command line may show it. Pure; travels to executors."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_NO_SECRETS: Final = frozenset(
    {
        *("host", "hostaddr", "port", "dbname", "user", "options", "service", "passfile"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"),
    }
)
"""Parameters of a dsn that are shown."""


def shown_dsn(dsn: str) -> str:
    """The dsn without its password; `postgresql://...` if it is in libpq's other form."""
    parts = urlsplit(dsn)
    if "://" not in dsn or parts.fragment:
        return "postgresql://..."
    login, at, hosts = parts.netloc.rpartition("@")
    pairs = [pair for pair in parts.query.split("&") if pair.partition("=")[0] in _NO_SECRETS]
    query = f"?{'&'.join(pairs)}" if pairs else ""
    return f"{parts.scheme}://{login.partition(':')[0]}{at}{hosts}{parts.path}{query}"
