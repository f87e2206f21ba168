"""The record of a batch in a commit to a Delta table, in `userMetadata`. No I/O.

The record is a JSON object, in format 1. It has all heads of its query, and for each query of the
table the version of its last commit, so that no reader has to search far back in the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
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
