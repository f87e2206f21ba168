"""Facts about a table that a sink is to write, and about the Spark that writes it."""

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
    """A planned sink: its table, as an address names it, and its arguments, by their names.

    `kind` is ICEBERG or DELTA; `query` that of the query, None if it was not given. `letters`: it
    is the table of another sink's dead letters.
    """

    kind: str
    name: str
    query: str | None = None
    create: bool = True
    letters: bool = False

    @property
    def sink(self) -> str:
        """The class that writes it."""
        return "IcebergSink" if self.kind == ICEBERG else "DeltaSink"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """The settings of a Spark for such tables, before it starts.

    `runtime` are the coordinates of the runtime that fits it, if there is one, and `supported`
    names the versions of Spark that have one. `installed` are the runtimes among its jars and
    packages, with the Spark that each is made for if that differs. `lacking` are missing settings
    that the sink, or the maintenance of its table, needs.
    """

    spark: str
    scala: str
    runtime: str | None
    supported: str
    installed: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """The ledgers that a table has; `error` says why they cannot be read."""

    stored: tuple[StoredLedger, ...] = ()
    error: EoListenerError | None = None

    @classmethod
    def read(cls, ledgers: Callable[[], Iterable[StoredLedger]]) -> LedgerFacts:
        """Ask for them."""
        try:
            return cls(stored=tuple(ledgers()))
        except EoListenerError as error:
            return cls(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The place of a table's files; `writable` is None if that cannot be determined."""

    place: str
    writable: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFacts:
    """One table of Iceberg's."""

    #: The release of Iceberg's runtime.
    release: str = ""
    #: True if that release can move a branch on.
    forwards: bool = True
    #: The type of the catalog, or its class.
    store: str = ""
    #: The reason why the table cannot be read.
    error: EoListenerError | None = None
    exists: bool = False
    #: True if the namespace of a missing table exists; None if the catalog has no tables at all.
    namespace: bool | None = True
    format: int = 2
    snapshots: int = 0
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: The branches of sinks that have a maximum age, and their snapshots.
    expiring: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: A setting of the session that sends writes to another branch.
    wap: str | None = None
    storage: Storage | None = None
    ledgers: LedgerFacts = LedgerFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFacts:
    """One table of Delta Lake's."""

    #: The release of Delta Lake.
    release: str = ""
    #: The reason why the sink refuses the table, or why it cannot be read.
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
