"""The settings of a connection; their repr has no secret, and they can be sent to executors."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from eo_listener.errors import RetriableSinkError, SettingsError
from eo_listener.model.argument_checks import require_seconds
from eo_listener.sinks.dsn_address import shown_dsn

Dsn: TypeAlias = "str | Callable[[], str]"

_SECRET: Final = ("password", "sslpassword", "oauth_client_secret", "passfile")
_URI: Final = ("postgresql://", "postgres://")
_PORT: Final = "5432"  # an address is the same with or without it
_ENVIRONMENT: Final = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
}
_LIVENESS: Final = {
    # The client notices a dead server within about 30 s while it waits, and in two minutes while it
    # writes: no less, since the kernel would also give up a server that stops reading for a while.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 120_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The dsn of a database, a schema, and time-outs in seconds.

    `dsn` is a connection string or URI, which is secret, or a function that returns one. Each
    connection calls the function again, since a token may have expired. `led_to` is the address in
    the first dsn that the function returned. `lock_timeout` limits the wait for another session's
    lock, `statement_timeout` the duration of one statement.
    """

    dsn: Dsn = field(repr=False)
    schema: str | None
    connect_timeout: float
    lock_timeout: float
    statement_timeout: float
    led_to: str | None = None

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "lock_timeout", "statement_timeout"):
            require_seconds(name, getattr(self, name), least=0.001)
        if isinstance(self.dsn, str) and self._torn():
            raise SettingsError(
                "cannot split the dsn of PostgresSink into host, port and database",
                cause="the password contains a character with a meaning in a URI",
                fix="Write that character as %XX (an '@' is %40), or give the dsn as "
                "\"host=... user=... password='...'\"",
            )

    def _torn(self) -> bool:
        """Return True if libpq may have read a part of the password as another part of the dsn.

        libpq takes the first '@', ':' and '/' of a URI as separators.
        """
        settings = self._settings()
        if "@" in str(settings.get("host") or ""):
            return True
        ports = [port for port in str(settings.get("port") or "").split(",") if port]
        if not all(port.isascii() and port.isdigit() for port in ports):
            return True
        database = str(settings.get("dbname") or "")
        return self._text().startswith(_URI) and ("@" in database or "/" in database)

    def now(self) -> ConnectionSettings:
        """Return the settings with the dsn as a string; use them at once, since a token may expire.

        Raises RetriableSinkError if the function that returns the dsn failed, and SettingsError for
        an invalid result: neither error quotes the function's message or result, which may be a
        secret.
        """
        if isinstance(self.dsn, str):
            return self
        try:
            dsn = self.dsn()
        except Exception as error:  # noqa: BLE001  # the user's code may raise anything
            kind = type(error).__name__
            raise RetriableSinkError(
                f"the function that returns the dsn of PostgresSink raised {kind}",
                cause="the source of the password or token is unavailable or refuses it; the "
                "error's text is not shown, since it may hold a secret",
                fix="Call the function yourself, on the driver and on an executor, to see "
                "its error",
            ) from None
        if not isinstance(dsn, str):
            raise SettingsError(
                f"the function that returns the dsn of PostgresSink returned {type(dsn).__name__}",
                fix="Return a connection string or URI as a string",
            )
        return replace(self, dsn=dsn)

    def conninfo(self, application: str) -> str:
        """Return the connection string for libpq, which is secret.

        The settings in the dsn override those of this class, except for application_name and
        client_encoding.
        """
        settings: dict[str, Any] = {
            **_LIVENESS,
            "connect_timeout": max(2, int(self.connect_timeout)),
            **self._settings(),
            "application_name": application,
            "client_encoding": "UTF8",
        }
        return make_conninfo(**settings)

    def place(self) -> str:
        """Return the database's address for display: `host:port/database`, without user and secret.

        libpq takes the parts that the dsn lacks from a service, or else from the environment. If
        `dsn` is a function, this method does not call it, and returns the address of the first
        connection.
        """
        if not isinstance(self.dsn, str):
            return self.led_to or "the server of its dsn function"
        settings = self._settings()
        service = settings.get("service") or os.environ.get("PGSERVICE")
        host, address, port, database = (
            str(settings.get(name) or ("" if service else os.environ.get(variable)) or "")
            for name, variable in _ENVIRONMENT.items()
        )
        host = host or address or (f"service {service}" if service else "localhost")
        where = host if port in ("", _PORT) else f"{host}:{port}"
        return f"{where}/{database}" if database else where

    @property
    def is_known(self) -> bool:
        """True if `place` names the server."""
        return isinstance(self.dsn, str) or self.led_to is not None

    def address(self) -> str:
        """Return the address of the database as a command shows it, without a secret."""
        if not isinstance(self.dsn, str):
            return "postgresql://USER@HOST/DATABASE"
        if self.dsn.startswith(_URI):
            return shown_dsn(self.dsn)
        query = urlencode(self._settings(), quote_via=quote, safe="/,:")
        return shown_dsn(f"postgresql://?{query}")

    def without_secrets(self, text: str) -> str:
        """Return `text`, which libpq or the server wrote, without the secrets of the dsn."""
        for name in _SECRET:
            secret = str(self._settings().get(name) or "")
            if secret:
                text = text.replace(secret, "***")
        return text

    def _text(self) -> str:
        if not isinstance(self.dsn, str):
            raise TypeError("the dsn comes from a function: call `now` first")
        return self.dsn

    def _settings(self) -> Mapping[str, Any]:
        try:
            return conninfo_to_dict(self._text())
        except psycopg.ProgrammingError:
            # libpq's own message quotes the string, password and all.
            raise SettingsError(
                "the dsn of PostgresSink is not a PostgreSQL connection string",
                fix='Write it as "postgresql://user@host:5432/database" or "host=... dbname=... '
                'user=..."; in a URI, write special characters of a password as %XX',
            ) from None


def application_name(sink: str, query: str) -> str:
    """Return the application_name of all connections of a sink and query."""
    digest = hashlib.sha256(f"{sink}\x00{query}".encode()).hexdigest()[:16]
    shown = re.sub(r"[^ -~]", "?", sink)[:24]
    return f"eo_listener {digest} {shown}"  # the server truncates at 63 bytes
