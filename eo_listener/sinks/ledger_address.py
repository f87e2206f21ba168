"""Parses the address of a ledger on a command line, and opens its reader or repair.

An address is `sqlite:FILE`, a PostgreSQL dsn, `kafka:TOPIC`, or, for a ledger in a Spark table,
`iceberg:NAME` or `delta:NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from eo_listener.client_config.validation import require_name, require_ports
from eo_listener.errors import MissingExtraError, SettingsError
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.model.protocols import LedgerReader
from eo_listener.sinks.dsn_address import shown_dsn
from eo_listener.sinks.ledger_repair import LedgerRepair
from eo_listener.sinks.ledger_steps import BATCHES_COUNTED, BATCHES_READ
from eo_listener.spark.checkpoint.location import shown

if TYPE_CHECKING:
    from eo_listener.kafka.java_transactions import JavaTransactions
    from eo_listener.spark.session.local_spark import LocalSpark

_Opened = TypeVar("_Opened")

_KAFKA: Final = re.compile(r"kafka:(?://(?P<servers>[^/@]+)/)?(?P<topic>[^/]*)")
_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql:")

_PACKAGES: Final = {"pyarrow": None, "psycopg": None, "pyspark": "spark", "py4j": "spark"}
"""Packages and the extra that installs each; None stands for the extra with the store's name."""

EACH_FORM: Final = (
    "sqlite:FILE",
    "postgresql://USER@HOST/DATABASE",
    "kafka:TOPIC",
    "kafka://HOST:PORT/TOPIC",
    "iceberg:CATALOG.NAMESPACE.TABLE",
    "delta:TABLE",
    "delta:/PATH",
)
FORMS: Final = ", ".join(EACH_FORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAddress:
    """The address of a ledger in `store`: `place` is a file, a dsn (secret), a topic or a table.

    `servers` are the bootstrap servers of a topic on another cluster; None means the cluster that
    the command reads anyway.
    """

    store: LedgerStore
    place: str = field(repr=False)
    servers: str | None = None

    @property
    def shown(self) -> str:
        """The address as you write it on a command line, without the password."""
        if self.store is LedgerStore.KAFKA:
            cluster = "" if self.servers is None else f"//{self.servers}/"
            return f"kafka:{cluster}{self.place}"
        if self.store is LedgerStore.POSTGRES:
            return shown_dsn(self.place)
        return f"{self.store.value}:{shown(self.place)}"

    @classmethod
    def parse(cls, text: str) -> LedgerAddress:
        """Parse an address. Raises SettingsError, which does not show the text."""
        if text.startswith(_POSTGRES):
            plain = text.startswith("postgresql:") and not text.startswith("postgresql://")
            place = text.removeprefix("postgresql:") if plain else text
            return cls(store=LedgerStore.POSTGRES, place=place)
        store, place = LedgerStore.from_address(text), text.partition(":")[2]
        if store is not None and place and (store is LedgerStore.SQLITE or store.in_table):
            return cls(store=store, place=place)
        match = _KAFKA.fullmatch(text)
        if match is not None and match["topic"]:
            require_name("topic", match["topic"])
            if match["servers"] is not None:
                require_ports(match["servers"])
            return cls(store=LedgerStore.KAFKA, place=match["topic"], servers=match["servers"])
        raise SettingsError(
            "unrecognised ledger address",
            cause="it may hold a password, so its value is not shown",
            fix=f"Write {FORMS}",
        )

    def open(
        self,
        properties: Mapping[str, str] | None,
        *,
        schema: str | None,
        spark: LocalSpark,
        query: str | None = None,
        counts_rows: bool = False,
    ) -> LedgerReader:
        """Return the ledger's reader.

        `properties` are the properties of the Kafka client, including the servers; `spark` is
        needed only for a ledger in a table. If `query` is given and the reader cannot determine the
        ledger of a different query in the table, it returns that ledger without heads. With
        `counts_rows`, the reader reads more batches of the table's history. Raises SettingsError,
        and MissingExtraError if the store's package is not installed.
        """
        loaded: Callable[..., LedgerReader] = self._loaded("Reader")
        if self.in_table:
            batches = BATCHES_COUNTED if counts_rows else BATCHES_READ
            return loaded(self.place, spark.session, query=query, batches=batches)
        return self._open(loaded, properties, schema)

    def client_properties(self, properties: Mapping[str, str] | None) -> dict[str, str]:
        """Return the Kafka client's properties. Raises SettingsError if they name no cluster."""
        own = {} if self.servers is None else {"bootstrap.servers": self.servers}
        merged = {**(properties or {}), **own}
        if "bootstrap.servers" not in merged:
            raise SettingsError(
                f"the ledger in topic {self.place} needs a cluster",
                fix=f"Add -b HOST:PORT, or write kafka://HOST:PORT/{self.place}",
            )
        return merged

    @property
    def in_table(self) -> bool:
        """True if the ledger is part of the sink's table, so that only Spark can read it."""
        return self.store.in_table

    def open_repair(
        self,
        properties: Mapping[str, str] | None,
        *,
        schema: str | None,
        spark: LocalSpark,
        java: JavaTransactions | None = None,
        no_java: str | None = None,
    ) -> LedgerRepair:
        """Return the repair of this ledger. Raises the errors of `open`.

        `java` asks Kafka's coordinators about transactions; if `java` is None, `no_java` is the
        reason why Java cannot be used.
        """
        loaded: Callable[..., LedgerRepair] = self._loaded("Repair")
        if self.in_table:
            return loaded(self.place, spark)
        return self._open(loaded, properties, schema, java=java, no_java=no_java)

    def _open(
        self,
        loaded: Callable[..., _Opened],
        properties: Mapping[str, str] | None,
        schema: str | None,
        **kafka: Any,
    ) -> _Opened:
        if self.store is LedgerStore.KAFKA:
            return loaded(self.client_properties(properties), self.place, **kafka)
        if self.store is LedgerStore.POSTGRES:
            return loaded(self.place, schema=schema)
        return loaded(self.place)

    def _loaded(self, part: Literal["Reader", "Repair"]) -> Any:
        store = self.store.value
        try:
            module = import_module(f"eo_listener.sinks.{store}.ledger_{part.lower()}")
            return getattr(module, f"{store.capitalize()}Ledger{part}")
        except ImportError as error:
            lacking = (error.name or "").partition(".")[0]
            if lacking not in _PACKAGES:
                raise
            task = f"reading a ledger ({store})"
            extra = _PACKAGES[lacking] or store
            raise MissingExtraError(task, package=lacking, extra=extra) from error
