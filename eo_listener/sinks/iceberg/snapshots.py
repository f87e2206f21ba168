"""The relevant parts of a table's snapshots, and the format of our summaries. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from eo_listener.sinks.ledger_text import Heads, LedgerText
from eo_listener.spark.jvm.iceberg_metadata_log import MetadataSearch

PROPERTY: Final = "eo-ledger"
"""The key in a snapshot's summary; in lower case, as Spark makes each option of a writer."""
LETTERS: Final = "eo-letters"
"""The key of where the dead letters of a batch are, see `LettersOfBatch`."""
BATCH_OF: Final = "eo-batch-of"
"""The key of a query's name in the snapshot that the statements of its batch come after."""

RENAMED_FROM: Final = "eo-renamed-from"
"""The key of the query's name before, in the snapshot in which its ledger has another name."""

_PROGRAM: Final = ("engine-name", "engine-version", "app-id")


class Snapshot(NamedTuple):
    """The relevant parts of a snapshot."""

    id: int
    parent: int | None
    sequence: int
    ledger: LedgerText | None
    #: The number of rows that it has added.
    added: int
    #: The query whose statements come after it.
    batch_of: str | None = None
    #: The snapshot that it was cherry-picked from.
    source: int | None = None
    #: It was written under a WAP id, on no branch.
    staged: bool = False
    #: The earlier name of its ledger's query, if this snapshot renamed it.
    renamed_from: str | None = None
    #: Its time in ms.
    committed: int = 0
    #: Iceberg's word for its change.
    operation: str | None = None
    #: The program, if it names itself.
    written_by: str = ""
    #: The place of its batch's dead letters, None without any.
    letters: str | None = None

    @property
    def heads(self) -> Heads:
        """All heads of its ledger's query, none without a ledger."""
        return {} if self.ledger is None else self.ledger.heads


class Snapshots(Protocol):
    """A table's snapshots at one moment."""

    main: int | None

    @property
    def branches(self) -> Mapping[str, int]: ...
    @property
    def search(self) -> MetadataSearch: ...

    def snapshot(self, snapshot_id: int) -> str | None:
        """A snapshot in Iceberg's JSON, None if it has expired."""

    def expired(self, snapshot_id: int, *, child: int, committed: int) -> str | None:
        """An expired snapshot, from older metadata; None if none of them still has it.

        The snapshot `child` was made of it, at the time `committed` in ms.
        """

    def was_main(self, snapshot_id: int, *, committed: int) -> bool | None:
        """Return True if main was ever at a snapshot of this time; None if nothing shows that."""


class Owner(NamedTuple):
    """The query that has its ledger in a snapshot, if one has, and the snapshot's parent."""

    query: str | None
    parent: int | None


def parse_owner(text: str) -> Owner:
    """Read whose a snapshot is, and nothing else. Raises FormatError as `parse_snapshot` does."""
    document = json.loads(text)
    ledger = document.get("summary", {}).get(PROPERTY)
    query = None if ledger is None else LedgerText.query_of(ledger)
    return Owner(query, document.get("parent-snapshot-id"))


def parse_snapshot(text: str) -> Snapshot:
    """Read a snapshot. Raises FormatError for a ledger of another format."""
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
