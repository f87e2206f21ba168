"""Parses the parts of a commit in a Delta log that a ledger needs. No I/O.

Delta's transaction log protocol, PROTOCOL.md, describes the actions. Spark writes `commitInfo`
first, then actions on the table, then actions on its files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from eo_listener.errors import FormatError
from eo_listener.sinks.delta.batch_records import BatchRecord, application_id

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
