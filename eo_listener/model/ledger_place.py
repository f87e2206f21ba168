"""The place of a ledger, as commands name it, and the kind of its store. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, runtime_checkable

from eo_listener.model.ledger import LedgerKey
from eo_listener.model.typed_command import typed_command
from eo_listener.offsets import OffsetRange, TopicPartition

ITS_CATALOG: Final = "with --spark-conf for its catalog"
"""The note on a command for a ledger in a table, if the user gave no options of the catalog."""


class LedgerStore(Enum):
    """The kinds of stores that hold a ledger.

    A value is the prefix of a ledger's address, and the name of a package in `eo_listener.sinks`.
    """

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    KAFKA = "kafka"
    ICEBERG = "iceberg"
    DELTA = "delta"

    @classmethod
    def from_address(cls, address: str) -> LedgerStore | None:
        """Return the kind of store that the prefix of `address` names, or None."""
        begins, colon, _ = address.partition(":")
        if begins == "postgresql":
            return cls.POSTGRES
        return next((store for store in cls if colon and store.value == begins), None)

    @property
    def in_table(self) -> bool:
        """True if the ledger is in the table itself, so that only Spark can read it."""
        return self in (LedgerStore.ICEBERG, LedgerStore.DELTA)

    @property
    def is_apart(self) -> bool:
        """True if the ledger can be restored to an older state without its rows.

        A copy of a database or a table has both ledger and rows. In Kafka, the ledger and the rows
        are in different topics.
        """
        return self is LedgerStore.KAFKA


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """The place of a ledger: an address without a secret, and the other options of a command.

    `schema` is the schema of a ledger in PostgreSQL. `servers` are the servers of a ledger's topic,
    if its address does not name them. `note` describes what else a command needs.
    `repeated_options` are the options of the running command that a suggested command needs too.
    While `is_known` is False, the server is unknown, so nobody can tell whether two sinks share one
    ledger.
    """

    address: str
    schema: str | None = None
    servers: str | None = None
    note: str = ""
    repeated_options: tuple[str, ...] = ()
    is_known: bool = True

    @property
    def is_apart(self) -> bool:
        """True if the ledger can be restored to an older state without its rows."""
        store = LedgerStore.from_address(self.address)
        return store is not None and store.is_apart

    def rename(self, old: LedgerKey, new: LedgerKey, *options: str) -> str:
        """Return the command that renames a ledger from `old` to `new`.

        Without `--execute`, the command is a dry run.
        """
        words = ["--sink", old.sink, "--query", old.query]
        words += ["--to-query", new.query] if new.query != old.query else []
        words += ["--to-sink", new.sink] if new.sink != old.sink else []
        return self._command("rename", [*words, *options])

    def accept(self, key: LedgerKey, tp: TopicPartition, gap: OffsetRange, *options: str) -> str:
        """Return the command that accepts one gap; without `--execute`, it is a dry run."""
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
    """A sink whose ledger `eo-listener ledger` finds, so that errors can name a command to run."""

    @property
    def ledger_place(self) -> LedgerPlace:
        """The place of the ledger, without secrets; complete once `applied` has returned.

        Reading the property sends no request.
        """


def place_of(sink: object) -> LedgerPlace | None:
    """Return the place of a sink's ledger, or None if no command finds it."""
    return sink.ledger_place if isinstance(sink, PlacedSink) else None


def target_first(has_it: str, *, all_there: str, none_there: str) -> str:
    """Return the advice on how to continue if a separate ledger is older than its rows.

    `has_it` is the condition to check first. `all_there` is the advice if the target has all of the
    rows, `none_there` the advice if it has none of them.
    """
    return (
        f"check if {has_it}: perhaps only the ledger's topic was restored to an older state, or "
        f"recreated. If all of them are there, {all_there}; if none of them is, {none_there}"
    )


def literal(name: str) -> str:
    """Return `name` as a string literal of Python, for code that the user types."""
    return json.dumps(name, ensure_ascii=False)
