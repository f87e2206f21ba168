"""Two origins side by side."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from eo_listener.foreach_batch.starting_offsets.difference import compare_origins
from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.offsets import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def origin(offsets: Mapping[TopicPartition, int], topic_id: str | None = None) -> Origin:
    ids = {} if topic_id is None else dict.fromkeys(offsets, topic_id)
    return Origin(what="an origin", offsets=offsets, topic_ids=ids)


@pytest.mark.parametrize(
    ("first", "second", "verdict", "unequal"),
    [
        ({T0: 5, T1: 7}, {T0: 5, T1: 7}, "equal", []),
        ({T0: 6, T1: 7}, {T0: 5, T1: 7}, "the first is ahead", [T0]),
        ({T0: 5, T1: 7}, {T0: 6, T1: 8}, "the second is ahead", [T0, T1]),
        ({T0: 5, T1: 7}, {T0: 6, T1: 6}, "each is ahead somewhere", [T0, T1]),
        ({T0: 5, T1: 7}, {T0: 5, T2: 1}, "not comparable everywhere", [T1, T2]),
        ({}, {}, "equal", []),
        ({T0: 5}, {}, "not comparable everywhere", [T0]),
    ],
)
def test_who_is_ahead(
    first: dict[TopicPartition, int],
    second: dict[TopicPartition, int],
    verdict: str,
    unequal: list[TopicPartition],
) -> None:
    """By partition and in all; a partition that one lacks is a difference of its own."""
    found = compare_origins(origin(first), origin(second))
    assert found.verdict() == verdict
    assert [row.partition for row in found.unequal] == unequal


def test_offsets_of_two_topics_do_not_compare() -> None:
    """Where both know the topic's id, and it is another one, equal offsets differ too."""
    found = compare_origins(origin({T0: 5}, "a"), origin({T0: 5}, "b"))
    assert found.verdict() == "not comparable everywhere"
    assert found.unequal[0].topic_ids == ("a", "b")
    assert compare_origins(origin({T0: 5}, "a"), origin({T0: 5})).unequal == ()
