"""Where the flights are written: a table in SQLite or in a PostgreSQL, or a topic of Kafka."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eo_listener.model.errors import UnavailableError
from examples.demo.demo_settings import (
    GROUP,
    TABLE,
    TARGET,
    DemoSettings,
    DemoStore,
)
from examples.demo.producer import create_topic

if TYPE_CHECKING:
    from eo_listener.model.protocols import Sink

_TIMEOUT: Final = 10  # seconds for whatever is asked of a database


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTarget:
    """`where` is a file, a DSN, which may hold a password, or brokers; `label` is for people."""

    store: DemoStore
    where: str = field(repr=False)
    label: str

    def text(self) -> str:
        """All of it in one line, for the driver; not for a command line or a log."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> DemoTarget:
        """Read what `text` wrote."""
        fields = json.loads(text)
        return cls(store=DemoStore(fields["store"]), where=fields["where"], label=fields["label"])

    def sink(self) -> Sink:
        """The sink that writes there."""
        if self.store is DemoStore.SQLITE:
            from eo_listener.sinks.sqlite import SqliteSink  # noqa: PLC0415  # one of two extras

            return SqliteSink(self.where, table=TABLE)
        if self.store is DemoStore.KAFKA:
            from eo_listener.sinks.kafka import KafkaSink  # noqa: PLC0415  # needs pyarrow

            options = {"kafka.bootstrap.servers": self.where}
            return KafkaSink(options, TARGET, group=GROUP, write_method="executors")
        from eo_listener.sinks.postgres import PostgresSink  # noqa: PLC0415  # one of two extras

        return PostgresSink(self.where, table=TABLE)

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection of one's own (DB-API) to a database, to see what is there."""
        if self.store is DemoStore.SQLITE:
            opened: Any = sqlite3.connect(self.where, timeout=_TIMEOUT, isolation_level=None)
        else:
            opened = _connect(self.where)
        with contextlib.closing(opened):
            yield opened

    @property
    def errors(self) -> type[Exception]:
        """What its connections raise."""
        if self.store is DemoStore.SQLITE:
            return sqlite3.Error
        import psycopg  # noqa: PLC0415  # only a demo on PostgreSQL needs it

        return psycopg.Error

    @property
    def placeholder(self) -> str:
        """What stands for a parameter in its SQL."""
        return "?" if self.store is DemoStore.SQLITE else "%s"


def require_reachable(settings: DemoSettings) -> None:
    """Raise UnavailableError when a PostgreSQL of the user's does not answer."""
    if settings.store is DemoStore.POSTGRES and settings.dsn is not None:
        _connect(settings.dsn).close()


@contextlib.contextmanager
def opened(settings: DemoSettings, servers: str, folder: Path) -> Iterator[DemoTarget]:
    """The target that was asked for; what was made for it alone is gone afterwards.

    In a database of the user's it is a schema, dropped at the end unless it is to be kept; the
    topic is on the brokers of the demo, `servers`. Raises UnavailableError.
    """
    if settings.store is DemoStore.KAFKA:
        # Another number than the source's, so that each has rows of several of its partitions.
        create_topic(servers, TARGET, settings.partitions + 1)
        yield DemoTarget(store=DemoStore.KAFKA, where=servers, label=f"Kafka, topic {TARGET}")
    elif settings.store is DemoStore.SQLITE:
        file = folder / "flights.sqlite"
        yield DemoTarget(store=DemoStore.SQLITE, where=str(file), label=f"SQLite, {file}")
    elif settings.dsn is None:
        from examples.demo.postgres_server import PostgresServer  # noqa: PLC0415  # only here

        with contextlib.closing(PostgresServer()) as server:
            server.start()
            yield DemoTarget(store=DemoStore.POSTGRES, where=server.dsn(), label="PostgreSQL")
    else:
        with _schema(settings.dsn, keep=settings.keep) as target:
            yield target


@contextlib.contextmanager
def _schema(dsn: str, *, keep: bool) -> Iterator[DemoTarget]:
    """A schema of its own in the user's database, so that nothing of theirs is touched."""
    from psycopg import conninfo, sql  # noqa: PLC0415  # only this kind of demo needs it

    name = f"eo_demo_{uuid.uuid4().hex[:8]}"
    with contextlib.closing(_connect(dsn)) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    given = conninfo.conninfo_to_dict(dsn).get("options")
    options = f"{given} -c search_path={name}" if given else f"-c search_path={name}"
    try:
        yield DemoTarget(
            store=DemoStore.POSTGRES,
            where=conninfo.make_conninfo(dsn, options=options),
            label=f"PostgreSQL, schema {name}",
        )
    finally:
        if not keep:
            with contextlib.closing(_connect(dsn)) as connection:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def _connect(dsn: str) -> Any:
    """Raises UnavailableError and SettingsError, which do not show the DSN."""
    import psycopg  # noqa: PLC0415  # only a demo on PostgreSQL needs it

    from eo_listener.sinks.postgres.conninfo import ConnectionSettings  # noqa: PLC0415  # the same

    access = ConnectionSettings(
        dsn=dsn,
        schema=None,
        connect_timeout=_TIMEOUT,
        lock_timeout=_TIMEOUT,
        statement_timeout=_TIMEOUT,
    )
    try:
        return psycopg.connect(access.conninfo("eo_listener demo"), autocommit=True)
    except psycopg.Error as error:
        # Not chained: the original may quote what it was given.
        raise UnavailableError(
            "PostgreSQL could not be reached",
            cause=access.without_secrets(str(error).partition("\n")[0]),
            fix="Check --dsn: postgresql://user@host:5432/database",
        ) from None
