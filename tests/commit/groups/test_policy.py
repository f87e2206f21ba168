"""How long a failed commit waits, and how many partitions one request takes."""

from __future__ import annotations

import pytest

from eo_listener.commit.groups.group_state import GROW_AFTER, MAX_PART, MIN_PART, PartSize
from eo_listener.commit.groups.policy import Backoff
from eo_listener.offsets import TopicPartition


@pytest.mark.parametrize(
    ("failures", "refused", "wait"),
    [
        (1, False, 0.1),
        (2, False, 0.2),
        (8, False, 12.8),
        (9, False, 15.0),
        (10**6, False, 15.0),
        (1, True, 1.0),
        (6, True, 32.0),
        (7, True, 60.0),
        (10**6, True, 60.0),
    ],
)
def test_each_wait_is_twice_the_one_before(failures: int, refused: bool, wait: float) -> None:
    """After a fault up to 15 s; after a refusal from a second up to a minute; spread over half."""
    assert Backoff().wait(failures, refused=refused, spread=1.0) == pytest.approx(wait)
    assert Backoff().wait(failures, refused=refused, spread=0.0) == pytest.approx(wait / 2)


TOO_LARGE = "INVALID_COMMIT_OFFSET_SIZE"


def part(size: int, begin: int = 0) -> frozenset[TopicPartition]:
    """So many partitions."""
    return frozenset(TopicPartition("t", begin + number) for number in range(size))


def answer(size: PartSize, error: str | None = None, begin: int = 0) -> int:
    """Let a full part land, or fail; return how many the next one takes."""
    sent = part(size.partitions, begin)
    size.learn(sent, {} if error is None else dict.fromkeys(sent, error))
    return size.partitions


def test_what_is_too_large_is_halved_down_to_the_least() -> None:
    """At once where the broker says so; a small part takes nothing from the others."""
    size = PartSize()
    assert [answer(size, TOO_LARGE) for _ in range(6)] == [500, 250, 125, 62, MIN_PART, MIN_PART]
    size = PartSize(partitions=100)
    size.learn(part(30), dict.fromkeys(part(30), TOO_LARGE))
    assert size.partitions == MIN_PART
    size.learn(part(1), dict.fromkeys(part(1), TOO_LARGE))
    assert size.partitions == MIN_PART


@pytest.mark.parametrize("code", ["UNKNOWN", "UNKNOWN_SERVER_ERROR"])
def test_a_fault_without_a_reason_halves_where_it_comes_twice(code: str) -> None:
    """For the same partitions, with no success between; other parts' faults do not count."""
    size = PartSize()
    assert answer(size, code) == MAX_PART
    assert answer(size, code, begin=MAX_PART) == MAX_PART
    assert answer(size) == MAX_PART
    assert answer(size, code) == MAX_PART
    assert answer(size, code) == 500
    assert answer(size, code) == 500
    assert answer(size, code) == 250


def test_an_error_of_another_kind_changes_nothing() -> None:
    """A coordinator that moves says nothing about the size."""
    size = PartSize()
    assert {answer(size, "NOT_COORDINATOR") for _ in range(5)} == {MAX_PART}


def test_it_grows_again_after_parts_that_landed() -> None:
    """An error that has passed does not keep parts small forever; a small part proves nothing."""
    size = PartSize()
    assert [answer(size, TOO_LARGE) for _ in range(2)] == [500, 250]
    size.learn(part(10), {})
    assert [answer(size) for _ in range(GROW_AFTER)] == [*[250] * (GROW_AFTER - 1), 500]
    assert [answer(size) for _ in range(GROW_AFTER)][-1] == MAX_PART
    answer(size)
    assert size == PartSize()


def test_a_limit_that_stays_is_tried_less_and_less_often() -> None:
    """Each try costs a failure: of 10,000 parts a few."""
    size, failures, confirmed = PartSize(), 0, 0
    while confirmed < 10_000:
        if size.partitions > 300:
            answer(size, TOO_LARGE)
            failures += 1
        else:
            answer(size)
            confirmed += 1
    assert 8 < failures < 15
