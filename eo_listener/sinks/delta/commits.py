"""Parses the parts of a commit in a Delta log that a ledger needs, and the record in it. No I/O.

Delta's transaction log protocol, PROTOCOL.md, describes the actions. Spark writes `commitInfo`
first, then actions on the table, then actions on its files.

The record of a batch, in the commit's `userMetadata`, is a JSON object, in format 1. It has all
heads of its query, and for each query of the table the version of its last commit, so that no
reader has to search far back in the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from eo_listener.errors import FormatError
from eo_listener.model.ledger import FORMAT
from eo_listener.sinks.ledger_text import LedgerText

PREFIX: Final = "eo-listener/"
_MARK: Final = "eo-listener"


class Doubt(Enum):
    """The reason why the heads of a query cannot be determined."""

    MEANWHILE = "meanwhile"
    """The version `doubted` has a batch that was judged before a RESTORE, replacement or rename."""
    TIMESTAMP = "timestamp"
    """The version `doubted` is a RESTORE to a timestamp."""
    GONE = "gone"
    """The version `doubted`, or versions before it, are no longer in the log."""


class QueryState(NamedTuple):
    """The state of a query's ledger at some version of the table.

    `number` is the number of the query's last batch. `version` is the version of the commit with
    the valid heads, or None if the query has no heads. If `doubt` is set, the heads cannot be
    determined, because of the commit of version `doubted`.
    """

    number: int
    version: int | None
    doubt: Doubt | None = None
    doubted: int = -1

    def encode(self) -> list[object]:
        """Return the state as a list for JSON."""
        return [self.number, self.version, self.doubt and self.doubt.value, self.doubted]


NO_BATCH: Final = QueryState(0, None)
"""The state of a query that has not written to the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch written to the table with the id `table`; `ledger` is the ledger after the batch.

    `base` is the table's version when the sink read the ledger, and `states` are the queries'
    states at that version. `attempt` is a text that differs for each attempt to write a batch.
    `renamed` is the ledger under its new name, if this commit renamed the query: such a commit has
    no rows, and leaves the old name without heads.
    """

    ledger: LedgerText
    table: str
    base: int
    attempt: str
    states: Mapping[str, QueryState]
    renamed: LedgerText | None = None

    def ledger_of(self, query: str) -> LedgerText:
        """Return the ledger of `query`, which is the record's query or its new name."""
        if self.renamed is not None and self.renamed.query == query:
            return self.renamed
        return self.ledger

    @property
    def queries(self) -> frozenset[str]:
        """The names of the queries whose ledgers the commit has changed."""
        names = {self.ledger.query}
        return frozenset(names if self.renamed is None else {*names, self.renamed.query})

    @property
    def query(self) -> str:
        """The query's name."""
        return self.ledger.query

    @property
    def number(self) -> int:
        """The batch's number among the query's batches in this table, from 1."""
        return self.ledger.number

    def text(self) -> str:
        """Return the text for `userMetadata`.

        The text has no `$`, since Spark replaces `${...}` in a setting.
        """
        renamed = {} if self.renamed is None else {"renamed": self.renamed.encode()}
        text = json.dumps(
            {
                _MARK: FORMAT,
                "table": self.table,
                "base": self.base,
                "attempt": self.attempt,
                "states": {query: state.encode() for query, state in self.states.items()},
                "ledger": self.ledger.encode(),
                **renamed,
            },
            separators=(",", ":"),
        )
        return text.replace("$", "\\u0024")

    @classmethod
    def parse(cls, text: str) -> BatchRecord | None:
        """Read a record; return None for another program's text. Raises FormatError."""
        if not text.startswith(f'{{"{_MARK}":'):
            return None
        try:
            document = json.loads(text)
            if document[_MARK] != FORMAT:
                raise FormatError(
                    f"the ledger in a Delta table has format {document[_MARK]}",
                    cause="a newer eo-listener wrote it",
                    fix="Use that version or a later one",
                )
            return cls(
                ledger=LedgerText.decode(document["ledger"]),
                table=document["table"],
                base=document["base"],
                attempt=document["attempt"],
                states={
                    query: QueryState(number, version, doubt and Doubt(doubt), doubted)
                    for query, (number, version, doubt, doubted) in document["states"].items()
                },
                renamed=LedgerText.decode(document["renamed"]) if "renamed" in document else None,
            )
        except (KeyError, ValueError, TypeError) as error:
            raise FormatError(
                f"the ledger in a Delta table cannot be read: {type(error).__name__}"
            ) from error


def application_id(query: str) -> str:
    """Return the key under which Delta keeps the number of a query's last batch (`txnAppId`)."""
    return PREFIX + quote(query, safe="")


def query_of(application: str) -> str | None:
    """Return the query of a `txnAppId`, or None if another program uses that id."""
    return unquote(application[len(PREFIX) :]) if application.startswith(PREFIX) else None


_OF_FILES: Final = ('{"add"', '{"remove"', '{"cdc"')
_RESTORE: Final = "RESTORE"
_REPLACES: Final = frozenset(
    {
        "CLONE",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
    }
)
_ROWS: Final = {
    "WRITE": ("numOutputRows",),
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The contents of one version of a table's log."""

    version: int
    operation: str
    #: The record of a batch of any query of a DeltaSink.
    record: BatchRecord | None = None
    #: The version to which a RESTORE went back, or None if its commit does not name it.
    restored: int | None = None
    #: Delta's `operationMetrics`.
    metrics: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    changes_table: bool = False
    #: The time of the commit, in milliseconds since 1970.
    at: int = 0

    @classmethod
    def parse(cls, version: int, lines: Iterable[str]) -> Commit:
        """Read the actions in `lines`, only as far as needed. Raises FormatError."""
        info: Mapping[str, Any] = {}
        applications: dict[str, int] = {}
        changes = False
        for line in lines:
            if line.startswith(_OF_FILES):
                if info:
                    break
                continue
            action = _parsed(version, line)
            info = action.get("commitInfo") or info
            changes = changes or "metaData" in action
            if transaction := action.get("txn"):
                applications[transaction["appId"]] = transaction["version"]
        operation = str(info.get("operation", ""))
        return cls(
            version=version,
            operation=operation,
            record=_record(info.get("userMetadata"), applications),
            restored=_restored(info) if operation == _RESTORE else None,
            metrics=info.get("operationMetrics") or {},
            changes_table=changes,
            at=int(info.get("timestamp") or 0),
        )

    @property
    def restores(self) -> bool:
        """True if the commit is a RESTORE of an older version of the table."""
        return self.operation == _RESTORE

    @property
    def replaces(self) -> bool:
        """True if the commit replaced the whole table."""
        return self.operation in _REPLACES

    @property
    def rows(self) -> int | None:
        """The number of rows that the commit changed, or None if Delta has not counted them."""
        counts = [self.metrics.get(name) for name in _ROWS.get(self.operation, ())]
        if not counts or None in counts:
            return None
        return sum(int(count) for count in counts if count is not None)


def _parsed(version: int, line: str) -> dict[str, Any]:
    try:
        action: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise FormatError(
            f"version {version} of a Delta log has a line that is not JSON"
        ) from error
    return action


def _record(text: object, applications: Mapping[str, int]) -> BatchRecord | None:
    """Return the record of a batch, or None if `text` is not such a record.

    A commit that only repeats the text, such as a compaction after a write, has no record.
    """
    record = BatchRecord.parse(text) if isinstance(text, str) else None
    if record is None or applications.get(application_id(record.query)) != record.number:
        return None
    return record


def _restored(info: Mapping[str, Any]) -> int | None:
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else None
