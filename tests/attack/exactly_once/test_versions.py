"""The events of the random kills have what they say, and each wrong row of a table is found."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.attack.exactly_once import versions
from tests.attack.exactly_once.versions import Sent

PARTITIONS = 3
EVENTS = versions.events(20_000, PARTITIONS, seed=1)
TABLE = versions.table(EVENTS, "t")
ROWS = [min(rows, key=str) for rows in TABLE.values()]


def by_key() -> dict[int, list[Sent]]:
    """The events of each key, in the order in which they are sent."""
    found: dict[int, list[Sent]] = defaultdict(list)
    for sent in EVENTS:
        found[sent.event.id].append(sent)
    return found


def test_the_events_are_late_corrected_deleted_and_sent_twice() -> None:
    """In numbers that matter, and equal in each run with one seed."""
    keys = by_key().values()
    assert versions.events(20_000, PARTITIONS, seed=1) == EVENTS
    assert sum(len({one.partition for one in sent}) == PARTITIONS for sent in keys) > 500
    numbers = [[one.event.version for one in sent] for sent in keys]
    assert sum(one != sorted(one) for one in numbers) > 300
    assert sum(len(one) > len(set(one)) for one in numbers) > 200
    assert sum(one.event.op == "d" for one in EVENTS) > 500
    assert len(keys) - len(TABLE) > 100


def test_no_older_version_comes_after_a_last_delete() -> None:
    """Else the table would depend on the batches: a row that is gone has no version."""
    for key, sent in by_key().items():
        if key not in TABLE:
            newest = max(one.event.version for one in sent)
            assert sent[-1].event.version == newest
            assert len({one.partition for one in sent}) == 1


def test_of_two_equal_events_either_may_be_there() -> None:
    """Their rows differ in where they came from, and in nothing else."""
    several = [rows for rows in TABLE.values() if len(rows) > 1]
    assert several
    assert all(len({row[:5] for row in rows}) == 1 for rows in several)
    assert versions.differences([max(rows, key=str) for rows in TABLE.values()], TABLE) == []


@pytest.mark.parametrize("wrong", ["twice", "lost", "not deleted", "in place of"])
def test_each_wrong_row_is_found(wrong: str) -> None:
    """A row twice, one that lacks, one that should be gone, one of an older version."""
    assert versions.differences(ROWS, TABLE) == []
    first = ROWS[0]
    spoilt = {
        "twice": [*ROWS, first],
        "lost": ROWS[1:],
        "not deleted": [*ROWS, (-1, *first[1:])],
        "in place of": [(first[0], -1, *first[2:]), *ROWS[1:]],
    }
    said = versions.differences(spoilt[wrong], TABLE)
    assert wrong in said[0]
    assert said[-1] == "1 in all"
