"""The place of a ledger, as a command names it, and its store. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, runtime_checkable

from eo_listener.model.ledger import LedgerKey
from eo_listener.model.typed_command import typed_command
from eo_listener.offsets import OffsetRange, TopicPartition

ITS_CATALOG: Final = "with --spark-conf for its catalog"
"""The options that a command needs for a table, if none was given before."""


class LedgerStore(Enum):
    """The stores that have a ledger; the value is how an address begins, and names its package."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    KAFKA = "kafka"
    ICEBERG = "iceberg"
    DELTA = "delta"

    @classmethod
    def from_address(cls, address: str) -> LedgerStore | None:
        """The store of an address, by how it begins; None for any other text."""
        begins, colon, _ = address.partition(":")
        if begins == "postgresql":
            return cls.POSTGRES
        return next((store for store in cls if colon and store.value == begins), None)

    @property
    def in_table(self) -> bool:
        """True if the ledger is in the table itself, which a Spark reads."""
        return self in (LedgerStore.ICEBERG, LedgerStore.DELTA)

    @property
    def is_apart(self) -> bool:
        """True if the ledger can be put back to an older state without its rows.

        In a database, and in a table, both are one copy. A topic is not its ledger's.
        """
        return self is LedgerStore.KAFKA


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """The place of a ledger: an address without a secret, and the other options of a command.

    `schema` is that of a ledger in PostgreSQL, `servers` those of a topic that does not name them;
    `note` describes in words what else is needed, `repeated_options` are those of the earlier
    command that this one needs too. As long as `is_known` is False the server is not known, and so
    not if two sinks share one ledger.
    """

    address: str
    schema: str | None = None
    servers: str | None = None
    note: str = ""
    repeated_options: tuple[str, ...] = ()
    is_known: bool = True

    @property
    def is_apart(self) -> bool:
        """True if it can be put back to an older state without its rows."""
        store = LedgerStore.from_address(self.address)
        return store is not None and store.is_apart

    def rename(self, old: LedgerKey, new: LedgerKey, *options: str) -> str:
        """The command that carries a ledger over; a dry run without `--execute`."""
        words = ["--sink", old.sink, "--query", old.query]
        words += ["--to-query", new.query] if new.query != old.query else []
        words += ["--to-sink", new.sink] if new.sink != old.sink else []
        return self._command("rename", [*words, *options])

    def accept(self, key: LedgerKey, tp: TopicPartition, gap: OffsetRange, *options: str) -> str:
        """The command that accepts one gap; a dry run without `--execute`."""
        words = ["--sink", key.sink, "--query", key.query]
        return self._command(
            "accept", [*words, "--partition", str(tp), "--gap", str(gap), *options]
        )

    def _command(self, verb: str, words: list[str]) -> str:
        place = [self.address, *(() if self.schema is None else ("--schema", self.schema))]
        where = () if self.servers is None else ("-b", self.servers)
        command = typed_command(["ledger", verb, *place, *words, *where], *self.repeated_options)
        return f"{command} ({self.note})" if self.note else command


@runtime_checkable
class PlacedSink(Protocol):
    """A sink whose ledger `eo-listener ledger` finds, so that errors have the command to type."""

    @property
    def ledger_place(self) -> LedgerPlace:
        """The place, once `applied` has returned. Makes no request, and holds no secret."""
        ...


def place_of(sink: object) -> LedgerPlace | None:
    """Return the place of a sink's ledger; None if no command finds it."""
    return sink.ledger_place if isinstance(sink, PlacedSink) else None


def target_first(has_it: str, *, all_there: str, none_there: str) -> str:
    """Describe how to continue if a ledger apart from its rows is behind: `has_it` is what to check
    first.
    """
    return (
        f"check if {has_it}: the ledger's topic may have been restored to an older state, or "
        f"recreated, without it. If it has all of them, {all_there}; if it has none, {none_there}"
    )


def literal(name: str) -> str:
    """A name as Python's code has it, for what is to be typed."""
    return json.dumps(name, ensure_ascii=False)
