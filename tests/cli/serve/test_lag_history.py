"""Lag and rate over time: what a rate is, where there is a gap, and how little is kept."""

from __future__ import annotations

from eo_listener.cli.serve.lag_history import LagHistory, Point
from tests.cli.serve.made_up import group


def test_a_rate_is_of_the_partitions_of_both_readings() -> None:
    """A partition that is new, was not committed before, or has gone, is no jump of the rate."""
    history = LagHistory()
    history.add(0.0, [group("g", [5, None])])
    history.add(10.0, [group("g", [7, 9, 3])])
    history.add(20.0, [group("g", [8])])
    assert history.points("g") == (
        Point(0.0, None, None),
        Point(10.0, 11, 0.2),
        Point(20.0, 2, 0.1),
    )


def test_what_went_back_has_no_rate() -> None:
    """A rewind is a verdict, and not a rate below zero."""
    history = LagHistory()
    history.add(0.0, [group("g", [8, 1])])
    history.add(10.0, [group("g", [5, 9])])
    assert history.points("g")[-1] == Point(10.0, 6, None)


def test_a_reading_that_failed_is_one_point_without_numbers() -> None:
    """However many fail in a row; and the rate does not reach over it."""
    history = LagHistory()
    history.add(0.0, [group("g", [5])])
    for at in (10.0, 20.0, 30.0):
        history.gap(at)
    history.add(40.0, [group("g", [6])])
    assert history.points("g") == (
        Point(0.0, 5, None),
        Point(10.0, None, None),
        Point(40.0, 4, None),
    )


def test_a_group_that_vanishes_is_known_for_an_hour() -> None:
    """Then nothing is kept of it; one that comes back continues where it was."""
    history = LagHistory()
    history.add(0.0, [group("a"), group("b")])
    history.add(10.0, [group("a")])
    assert history.gone([group("a")]) == {"b": 0.0}
    assert history.points("b")[-1] == Point(10.0, None, None)
    history.add(3000.0, [group("a"), group("b")])
    assert history.gone([group("a"), group("b")]) == {}
    assert len(history.points("b")) == 3
    history.add(3010.0, [group("a")])
    history.add(7000.0, [group("a")])
    assert history.gone([group("a")]) == {}
    assert history.points("b") == ()


def test_a_group_that_could_not_be_read_is_not_gone_for_good() -> None:
    """An error of one group leaves a gap in it, and keeps what it was."""
    history = LagHistory()
    history.add(0.0, [group("a")])
    refused = [group("a", [], error="GROUP_AUTHORIZATION_FAILED")]
    history.add(9000.0, refused)
    assert len(history.points("a")) == 2
    assert history.gone(refused) == {}


def test_what_is_kept_is_bounded() -> None:
    """Points of a group, of all groups together, and groups; those that are gone make room."""
    history = LagHistory(points=5, total=12, groups=4)
    for at in range(20):
        history.add(float(at), [group(name) for name in "abc"])
    assert [len(history.points(name)) for name in "abc"] == [4, 4, 4]
    for at in range(20, 40):
        history.add(float(at), [group("a")])
    history.add(40.0, [group(name) for name in "aefghij"])
    kept = [name for name in "abcdefghij" if history.points(name)]
    assert kept == ["a", "e", "f", "g"]
    for number in range(1000):
        history.add(50.0 + number, [group(f"short-lived-{number}")])
    names = [f"short-lived-{number}" for number in range(1000)]
    assert sum(bool(history.points(name)) for name in names) <= 4
