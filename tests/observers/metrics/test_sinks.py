"""What is served in a process has the numbers of all `exactly_once` in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from eo_listener import SqliteSink, exactly_once
from eo_listener.foreach_batch.exactly_once import ExactlyOnce
from eo_listener.model.errors import SettingsError
from eo_listener.model.observers import Observers
from eo_listener.observers.metrics import open_metrics
from eo_listener.observers.metrics.prometheus import Prometheus
from eo_listener.observers.metrics.serve import CountWhereServed
from eo_listener.testing import MemorySink
from tests.foreach_batch.stage import P0, Plans, Stage, frame_of
from tests.observers.metrics.test_prometheus import Series, of_text, series, value
from tests.observers.metrics.test_scrape import scrape


@pytest.fixture
def served() -> Iterator[Prometheus]:
    made = open_metrics(0)
    yield made
    made.close()


def halt(function: ExactlyOnce) -> None:
    """Have a batch broken off: what it is given is no DataFrame of a query that can be asked."""
    with pytest.raises(SettingsError, match="checkpoint="):
        function(object(), 0)  # type: ignore[arg-type]  # that is what is wrong
    function.close()


def shown(served: Prometheus) -> Series:
    return of_text(scrape(served))


def batch_failures(served: Prometheus, query: str = "flights") -> float | None:
    return value(shown(served), "sink_batch_failures_total", query=query, error="SettingsError")


def test_a_sink_is_counted_without_a_word(served: Prometheus, tmp_path: Path) -> None:
    """It may be there before or after it; one that is given as an observer too counts once."""
    first = exactly_once(SqliteSink(tmp_path / "a.db", table="t"), name="flights")
    second = open_metrics(0)
    halt(first)
    assert (batch_failures(served), batch_failures(second)) == (1, 1)
    second.close()
    halt(exactly_once(SqliteSink(tmp_path / "b.db", table="t"), name="b", observers=[served]))
    halt(exactly_once(SqliteSink(tmp_path / "c.db", table="t"), name="b", observers=[second]))
    assert batch_failures(served, "b") == 2
    assert "b" in second._counters.numbers().sinks
    assert batch_failures(served) == 1


def test_a_server_that_was_closed_counts_no_more(tmp_path: Path) -> None:
    """And nothing of it is left."""
    made = open_metrics(0)
    made.close()
    halt(exactly_once(SqliteSink(tmp_path / "a.db", table="t"), name="flights"))
    assert not made._counters.numbers().sinks
    assert not [one for one in threading.enumerate() if one.name == "eo-listener-metrics"]


def test_what_the_steps_tell_is_what_is_shown(served: Prometheus) -> None:
    """A real batch's offsets, rows and replays are exported, and given to the user's observer."""
    stage = Stage(Plans({0: {P0: (3, 5)}}), [MemorySink(), MemorySink(key="b")])
    for _ in range(2):
        steps = stage.batches()
        steps._observers = Observers(CountWhereServed(()), stage.events.append)
        steps.run(frame_of(stage.plans.ranges[0]), 0)
    found = shown(served)
    own = {key: one for key, one in series(*stage.events).items() if "sink" in key[0]}
    assert own.items() <= found.items()
    query = {"query": "flights"}
    assert value(found, "sink_applied_offset", **query, topic="t", partition="0") == 5
    assert value(found, "sink_rows_total", **query) == 4
    assert value(found, "sink_batches_total", **query, outcome="replayed") == 2
