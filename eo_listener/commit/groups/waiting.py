"""What waits for Kafka, in the groups of a run."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from eo_listener.model.offsets import TopicPartition

Groups = Collection[tuple[str, str]]
"""Groups, each by the name of its cluster and its own."""


class Waiting(NamedTuple):
    """An offset that Kafka has neither confirmed nor refused."""

    cluster: str
    group: str
    tp: TopicPartition
    offset: int
