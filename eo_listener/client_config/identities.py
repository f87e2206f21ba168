"""The names under which commits are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

LEDGER_TOPIC = "eo-ledger"
"""The default topic of a Kafka sink's ledger."""

INSTANCE_ID = "eo-listener"
"""The `group.instance.id` (KIP-345) of a group's live member, in the mode "member"."""

MOST_BYTES = 32_767
"""How long a text of Kafka's protocol can be, such as a `transactional.id`."""

_GROUP = "eo-listener-"


def transactional_id(group: str) -> str:
    """Return the `transactional.id` of a group's commits: always the same, so that it fences."""
    return f"{_GROUP}{group}"


def sink_key(topics: Iterable[str]) -> str:
    """Return what a Kafka sink goes by that was given no name."""
    return ",".join(sorted(set(topics)))


def sink_transactional_id(sink: str, query: str) -> str:
    """Return the `transactional.id` of a sink's batches of a query: always the same, too.

    Characters other than letters, digits and `_.-~` are percent-encoded: no two pairs have the same
    id, and none equals that of a group's commits.
    """
    return "/".join(("eo-listener", quote(sink, safe=""), quote(query, safe="")))


class IdOwner(NamedTuple):
    """Whose a transactional id of ours is: a sink's for a query, or a group's commits."""

    sink: str | None = None
    query: str | None = None
    group: str | None = None

    @classmethod
    def parse(cls, transactional_id: str) -> IdOwner | None:
        """Read an id that one of the two functions above has made; None for any other."""
        first, *names = transactional_id.split("/")
        if first == "eo-listener" and len(names) == 2:
            sink, query = map(unquote, names)
            return cls(sink=sink, query=query)
        group = transactional_id.removeprefix(_GROUP)
        return cls(group=group) if group and group != transactional_id else None
