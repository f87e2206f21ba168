"""The parts of a table's snapshots that a sink uses, and the sink's keys in summaries. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from eo_listener.sinks.ledger_text import Heads, LedgerText
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataSearch

PROPERTY: Final = "eo-ledger"
"""The key of the ledger in a snapshot's summary. Spark makes keys of writer options lower case."""
LETTERS: Final = "eo-letters"
"""The key of the place of a batch's dead letters in a summary (see `LettersOfBatch`)."""
BATCH_OF: Final = "eo-batch-of"
"""The key of the query's name, in the summary of the empty snapshot with which a batch begins."""

RENAMED_FROM: Final = "eo-renamed-from"
"""The key of the query's old name, in the summary of the snapshot with the renamed ledger."""

_PROGRAM: Final = ("engine-name", "engine-version", "app-id")


class Snapshot(NamedTuple):
    """The parts of a snapshot that the ledger and its publication need."""

    id: int
    parent: int | None
    sequence: int
    ledger: LedgerText | None
    #: The number of rows that the snapshot added.
    added: int
    #: The query whose statements follow this snapshot.
    batch_of: str | None = None
    #: The snapshot from which this one was cherry-picked.
    source: int | None = None
    #: True if the snapshot was written under a WAP id, on no branch.
    staged: bool = False
    #: The earlier name of the ledger's query, if this snapshot renamed it.
    renamed_from: str | None = None
    #: The time of the commit, in ms.
    committed: int = 0
    #: Iceberg's name for the kind of change.
    operation: str | None = None
    #: The program that wrote the snapshot, or an empty text if unknown.
    written_by: str = ""
    #: The place of the batch's dead letters, or None if it has none.
    letters: str | None = None

    @property
    def heads(self) -> Heads:
        """All heads of the ledger's query; empty if the snapshot has no ledger."""
        return {} if self.ledger is None else self.ledger.heads


class Snapshots(Protocol):
    """A table's snapshots at one moment."""

    main: int | None

    @property
    def branches(self) -> Mapping[str, int]: ...
    @property
    def search(self) -> MetadataSearch: ...

    def snapshot(self, snapshot_id: int) -> str | None:
        """Return a snapshot in Iceberg's JSON, or None if it has expired."""

    def expired(self, snapshot_id: int, *, child: int, committed: int) -> str | None:
        """Return an expired snapshot from older metadata files, or None if no such file has it.

        `child` is a snapshot that was made from the expired one, and `committed` the time of
        `child` in ms.
        """

    def was_main(self, snapshot_id: int, *, committed: int) -> bool | None:
        """Return True if main was ever at the snapshot, False if it never was, None if unknown.

        `committed` is the snapshot's time in ms.
        """


class Owner(NamedTuple):
    """The query whose ledger is in a snapshot (None if there is no ledger), and the parent's id."""

    query: str | None
    parent: int | None


def parse_owner(text: str) -> Owner:
    """Read only a snapshot's owner and parent. Raises FormatError as `parse_snapshot` does."""
    document = json.loads(text)
    ledger = document.get("summary", {}).get(PROPERTY)
    query = None if ledger is None else LedgerText.query_of(ledger)
    return Owner(query, document.get("parent-snapshot-id"))


def parse_snapshot(text: str) -> Snapshot:
    """Read a snapshot. Raises FormatError for a ledger of a different format."""
    document = json.loads(text)
    summary = document.get("summary", {})
    ledger, source = summary.get(PROPERTY), summary.get("source-snapshot-id")
    return Snapshot(
        id=document["snapshot-id"],
        parent=document.get("parent-snapshot-id"),
        sequence=document.get("sequence-number", 0),
        ledger=None if ledger is None else LedgerText.decode(ledger),
        added=int(summary.get("added-records", 0)),
        batch_of=summary.get(BATCH_OF),
        source=None if source is None else int(source),
        staged="wap.id" in summary,
        renamed_from=summary.get(RENAMED_FROM),
        committed=document.get("timestamp-ms", 0),
        operation=summary.get("operation"),
        written_by=" ".join(summary[key] for key in _PROGRAM if key in summary),
        letters=summary.get(LETTERS),
    )
