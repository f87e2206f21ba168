"""Facts about a table that a sink will write, and about the Spark that will write it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from eo_listener.errors import EoListenerError
from eo_listener.model.ledger import StoredLedger

ICEBERG: Final = "iceberg"
DELTA: Final = "delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """A planned sink: its table's name, as in an address, and its arguments.

    `kind` is ICEBERG or DELTA; `query` is the query's name, or None if it was not given. `letters`
    is True if the table is for another sink's dead letters.
    """

    kind: str
    name: str
    query: str | None = None
    create: bool = True
    letters: bool = False

    @property
    def sink(self) -> str:
        """The name of the sink's class."""
        return "IcebergSink" if self.kind == ICEBERG else "DeltaSink"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """Spark's libraries and settings for Iceberg or Delta tables, read before Spark starts.

    `runtime` has the coordinates of the runtime that fits this Spark, or None if there is no such
    runtime. `supported` names the versions of Spark for which there is a runtime. `installed` has
    the runtimes among Spark's jars and packages, each with the versions for which it is made, or
    None if it fits. `lacking` are missing settings that the sink, or the maintenance of its table,
    needs.
    """

    spark: str
    scala: str
    runtime: str | None
    supported: str
    installed: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """The ledgers in a table; if they cannot be read, `error` is the reason."""

    stored: tuple[StoredLedger, ...] = ()
    error: EoListenerError | None = None

    @classmethod
    def read(cls, ledgers: Callable[[], Iterable[StoredLedger]]) -> LedgerFacts:
        """Return the facts with the result of `ledgers()`, or with the error that it raises."""
        try:
            return cls(stored=tuple(ledgers()))
        except EoListenerError as error:
            return cls(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The place of a table's files. `writable` is None if that cannot be determined."""

    place: str
    writable: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFacts:
    """The facts about one Iceberg table."""

    #: The release of Iceberg's runtime.
    release: str = ""
    #: True if that release can fast-forward a branch.
    forwards: bool = True
    #: The type or the class of the catalog.
    store: str = ""
    #: The reason why the table cannot be read.
    error: EoListenerError | None = None
    exists: bool = False
    #: True if the namespace of a missing table exists, None if the catalog has no tables yet.
    namespace: bool | None = True
    format: int = 2
    snapshots: int = 0
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: The sinks' branches that have a maximum age, with their snapshots.
    expiring: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: A setting of the session that sends writes to another branch.
    wap: str | None = None
    storage: Storage | None = None
    ledgers: LedgerFacts = LedgerFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFacts:
    """The facts about one Delta Lake table."""

    #: The release of Delta Lake.
    release: str = ""
    #: The reason why the sink refuses the table, or why the table cannot be read.
    error: EoListenerError | None = None
    exists: bool = False
    #: The table's name in SQL.
    reference: str = ""
    #: True if the catalog with the table's name outlives the application.
    lasting: bool = True
    #: True if the table's database exists.
    database: bool = True
    #: The protocol, as Delta shows it.
    protocol: str = ""
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    storage: Storage | None = None
    ledgers: LedgerFacts = LedgerFacts()
