"""Makes the names and ids that eo_listener uses in Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

LEDGER_TOPIC = "eo-ledger"
"""The default topic of a Kafka sink's ledger."""

INSTANCE_ID = "eo-listener"
"""The `group.instance.id` (KIP-345) of a group's member in the mode "member"."""

MOST_BYTES = 32_767
"""The most bytes of a text in Kafka's protocol, such as a `transactional.id`."""

_GROUP = "eo-listener-"


def transactional_id(group: str) -> str:
    """Return the `transactional.id` of a group's commits.

    The id of a group never changes, so that a new producer fences the older producer.
    """
    return f"{_GROUP}{group}"


def sink_key(topics: Iterable[str]) -> str:
    """Return the key of a Kafka sink without a name: its topics, sorted."""
    return ",".join(sorted(set(topics)))


def sink_transactional_id(sink: str, query: str) -> str:
    """Return the `transactional.id` of a query's batches in a sink; this id never changes.

    Characters other than letters, digits and `_.-~` are percent-encoded, so that no two pairs of
    sink and query have the same id, and no id equals the id of a group's commits.
    """
    return "/".join(("eo-listener", quote(sink, safe=""), quote(query, safe="")))


class IdOwner(NamedTuple):
    """The owner of a transactional id of eo_listener: a sink for a query, or a group's commits."""

    sink: str | None = None
    query: str | None = None
    group: str | None = None

    @classmethod
    def parse(cls, transactional_id: str) -> IdOwner | None:
        """Parse the id of a sink or of a group's commits; return None for any other id."""
        first, *names = transactional_id.split("/")
        if first == "eo-listener" and len(names) == 2:
            sink, query = map(unquote, names)
            return cls(sink=sink, query=query)
        group = transactional_id.removeprefix(_GROUP)
        return cls(group=group) if group and group != transactional_id else None
