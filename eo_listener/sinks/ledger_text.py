"""The ledger of one sink and query as one text, for the metadata of the commit that has the rows.

Format 1, JSON in ASCII. Iceberg keeps it in the summary of a snapshot, Delta in the `userMetadata`
of a commit. It always has all heads, since the commit before it can be deleted at any time. No I/O.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from eo_listener.model.errors import FormatError
from eo_listener.model.ledger import FORMAT, Entry
from eo_listener.sinks.packed_heads import Heads, Movers, read_row

_PARTS = {"v", "query", "number", "moved", "heads"}


@dataclass(frozen=True, slots=True)
class LedgerText:
    """All heads of `query` in a table; `number` counts the batches written under it, from 1."""

    query: str
    number: int
    heads: Heads

    def after(self, entry: Entry) -> LedgerText:
        """Return the ledger once `entry`, which is of the same query, is written."""
        moved = {tp: entry.head(tp) for tp in entry.moves}
        return LedgerText(self.query, self.number + 1, {**self.heads, **moved})

    def encode(self) -> str:
        """Return the text: equal texts for equal ledgers.

        About 20 bytes a partition, and 100 for each topic and each batch that has moved one last.
        """
        movers = Movers()
        rows: defaultdict[str, list[list[int]]] = defaultdict(list)
        for tp, head in sorted(self.heads.items()):
            rows[tp.topic].append(movers.row(tp, head))
        return json.dumps(
            {
                "v": FORMAT,
                "query": self.query,
                "number": self.number,
                "moved": movers.listed,
                "heads": rows,
            },
            separators=(",", ":"),
        )

    @classmethod
    def query_of(cls, text: str) -> str:
        """Read whose ledger a text is, and no head of it. Raises FormatError."""
        query = _parsed(text)["query"]
        if not isinstance(query, str):
            raise _foreign("it lacks the name of a query")
        return query

    @classmethod
    def decode(cls, text: str) -> LedgerText:
        """Read a text. Raises FormatError for what `encode` of this format would not write."""
        given = _parsed(text)
        query, number = given["query"], given["number"]
        if not isinstance(query, str) or type(number) is not int or number < 1:
            raise _foreign("it lacks the name of a query, or the number of a batch")
        try:
            heads = [
                read_row(topic, row, given["moved"])
                for topic, rows in given["heads"].items()
                for row in rows
            ]
        except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
            raise _foreign(f"a value cannot be read ({type(error).__name__})") from error
        found = cls(query, number, dict(heads))
        if len(found.heads) != len(heads):
            raise _foreign("a partition is in it twice")
        return found


def _parsed(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError:
        raise _foreign("it is not JSON") from None
    if not isinstance(given, dict) or given.get("v") != FORMAT:
        raise _foreign(f"it is not of format {FORMAT}")
    if given.keys() != _PARTS:
        raise _foreign(f"it has the parts {', '.join(sorted(given))}")
    return given


def _foreign(what: str) -> FormatError:
    return FormatError(
        f"the ledger in a commit of the table is none of format {FORMAT}: {what}",
        cause="another program has written it, or a newer release of eo_listener",
        fix="Use that release here too",
    )
