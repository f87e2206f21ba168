"""How the batches' results add up in memory."""

from __future__ import annotations

from examples.demo.results import Delay, MemoryResults


def delay(origin: str, flights: int) -> Delay:
    return Delay(origin=origin, hour=9, flights=flights, cancelled=0, minutes=1.0)


def test_a_batch_replaces_the_values_of_its_keys() -> None:
    """Later values win, other keys stay, and a batch's rows are what it added."""
    tally = MemoryResults()
    tally.write(0, [delay("JFK", 10), delay("EWR", 5)], 0.5)
    tally.write(1, [delay("JFK", 12)], 0.5)
    assert tally.counted == 17
    assert [batch.rows for batch in tally.batches] == [15, 2]
    assert {each.origin: each.flights for each in tally.delays} == {"JFK": 12, "EWR": 5}


def test_a_batch_that_comes_twice_changes_nothing() -> None:
    """As after a restart between the sink and Spark's commit log."""
    tally = MemoryResults()
    for _ in range(2):
        tally.write(0, [delay("JFK", 10)], 0.5)
    assert tally.counted == 10
    assert tally.batch_count == 1
