"""The ledger of one sink and query as a text, which the commit with the rows carries. No I/O.

The text is JSON in ASCII, format 1. Iceberg keeps it in the summary of a snapshot, Delta in the
`userMetadata` of a commit. The text always has all heads, since the previous commit can be deleted
at any time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from eo_listener.errors import FormatError
from eo_listener.model.ledger import FORMAT, Entry, Head
from eo_listener.offsets import OffsetRange, TopicPartition

_PARTS = {"v", "query", "number", "moved", "heads"}
Heads = Mapping[TopicPartition, Head]


@dataclass(frozen=True, slots=True)
class LedgerText:
    """All heads of `query` in a table; `number` counts the written batches of the query, from 1."""

    query: str
    number: int
    heads: Heads

    def after(self, entry: Entry) -> LedgerText:
        """Return the ledger after the batch `entry` of the same query is written."""
        moved = {tp: entry.head(tp) for tp in entry.moves}
        return LedgerText(self.query, self.number + 1, {**self.heads, **moved})

    def encode(self) -> str:
        """Return the ledger as a text; equal ledgers have equal texts.

        The text has about 20 bytes for each partition, and about 100 for each topic and for each
        batch that was the last to move a head.
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
        """Return the query's name in a ledger's text; reads no heads. Raises FormatError."""
        query = _parsed(text)["query"]
        if not isinstance(query, str):
            raise _foreign("it lacks the name of a query")
        return query

    @classmethod
    def decode(cls, text: str) -> LedgerText:
        """Read a ledger's text. Raises FormatError for a text that `encode` would not write."""
        document = _parsed(text)
        query, number = document["query"], document["number"]
        if not isinstance(query, str) or type(number) is not int or number < 1:
            raise _foreign("it lacks the name of a query or the number of a batch")
        try:
            heads = [
                read_row(topic, row, document["moved"])
                for topic, rows in document["heads"].items()
                for row in rows
            ]
        except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
            raise _foreign(f"a value is unreadable ({type(error).__name__})") from error
        ledger = cls(query, number, dict(heads))
        if len(ledger.heads) != len(heads):
            raise _foreign("it has a partition twice")
        return ledger


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise _foreign("it is not JSON") from None
    if not isinstance(document, dict) or document.get("v") != FORMAT:
        raise _foreign(f"it does not have format {FORMAT}")
    if document.keys() != _PARTS:
        raise _foreign(f"it has the parts {', '.join(sorted(document))}")
    return document


def _foreign(detail: str) -> FormatError:
    return FormatError(
        f"the ledger in a commit of the table does not have format {FORMAT}: {detail}",
        cause="another program or a newer release of eo_listener wrote it",
        fix="Use that release here too",
    )


class Mover(NamedTuple):
    """The query, run and batch that moved a head, and the id of the head's topic at that time."""

    query_id: str
    run_id: str
    batch_id: int
    topic_id: str | None


class Movers:
    """Collects the movers of the heads that are written together, without duplicates."""

    def __init__(self) -> None:
        self._numbers: dict[Mover, int] = {}

    def row(self, tp: TopicPartition, head: Head) -> list[int]:
        """Return a head as [partition, start, until, number of its mover]."""
        mover = Mover(head.query_id, head.run_id, head.batch_id, head.topic_id)
        number = self._numbers.setdefault(mover, len(self._numbers))
        return [tp.partition, *head.range, number]

    @property
    def listed(self) -> list[Mover]:
        """The movers in the order of their numbers."""
        return list(self._numbers)


def read_row(topic: str, row: Any, movers: Any) -> tuple[TopicPartition, Head]:
    """Read a head from JSON that `Movers.row` has written.

    Raises TypeError, ValueError or IndexError for anything else.
    """
    partition, start, until, number = map(_count, row)
    query_id, run_id, batch_id, topic_id = movers[number]
    if start > until:
        raise ValueError("a range ends before it starts")
    head = Head(
        range=OffsetRange(start, until),
        topic_id=None if topic_id is None else _text(topic_id),
        query_id=_text(query_id),
        run_id=_text(run_id),
        batch_id=_count(batch_id),
    )
    return TopicPartition(topic, partition), head


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:  # JSON's true equals 1, and -1 would be the last mover
        raise TypeError("not an integer of at least 0")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value
