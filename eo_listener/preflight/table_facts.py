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

    `wanted` are the coordinates of the runtime that fits it, None if there is none, and `supported`
    names the versions of Spark that have one. `given` are the runtimes among its jars and packages,
    with the Spark that each is made for if that differs. `lacking` are missing settings that the
    sink, or the maintenance of its table, needs.
    """

    spark: str
    scala: str
    wanted: str | None
    supported: str
    given: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
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
    """One table of Iceberg's.

    `release` is that of the runtime, and `forwards` whether it can move a branch on; `store` is
    the catalog's type, or its class. `error` says why the table cannot be read. Of one that is not
    there `namespace` says whether its namespace is; None where the catalog has no tables at all.
    `expiring` are branches of sinks that have been given an age, and their snapshots. `wap` is a
    setting of the session that has writes go elsewhere.
    """

    release: str = ""
    forwards: bool = True
    store: str = ""
    error: EoListenerError | None = None
    there: bool = False
    namespace: bool | None = True
    format: int = 2
    snapshots: int = 0
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    expiring: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    wap: str | None = None
    storage: Storage | None = None
    ledgers: LedgerFacts = LedgerFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFacts:
    """One table of Delta Lake's.

    `release` is that of Delta Lake. `error` says why the sink refuses the table, or why it cannot
    be read. `reference` is the table in SQL. `lasting` says whether the catalog that has its name
    outlives its application, and `database` whether its database is there. `protocol` is as Delta
    says it.
    """

    release: str = ""
    error: EoListenerError | None = None
    there: bool = False
    reference: str = ""
    lasting: bool = True
    database: bool = True
    protocol: str = ""
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    storage: Storage | None = None
    ledgers: LedgerFacts = LedgerFacts()
