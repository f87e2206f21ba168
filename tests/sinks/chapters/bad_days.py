"""A server that dies in a batch, and a predecessor that has not ended yet."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from eo_listener.events import BatchReplayed
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.offsets import OffsetRange
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of, rows_of
from tests.foreach_batch.overlap import Overlap
from tests.foreach_batch.stage import Plans, Run
from tests.sinks.arrow_frame import ArrowFrames
from tests.sinks.chapters.store import TP, Store, once


class MortalStore(Store):
    """A store on a server of the test's own."""

    points: tuple[str, ...]
    """Where it dies, as a batch reaches them; only at the last ones the outcome is unknown."""
    unknown = ("sink.ledger-moved", "sink.commit-sent")

    kill: Callable[[], object]
    """Ends the server at once."""
    start: Callable[[], object]


class Outages:
    """The chapter of the servers."""

    def test_a_server_that_is_killed_in_a_batch(self, mortal: MortalStore) -> None:
        """At each point of a batch: it is repeated when the server is back, and is there once."""
        down: list[str] = []

        def kill() -> None:
            mortal.kill()
            down.append("it is")

        def sleep(seconds: float) -> None:
            if down:
                mortal.start()
                down.clear()
            time.sleep(min(seconds, 0.2))

        sink, writer = mortal.sink(), SinkWriter(RetryLimits(timeout=120), sleep, time.monotonic)
        for number, point in enumerate(mortal.points):
            ranges = {TP: OffsetRange(3 * number, 3 * number + 3)}
            entry = entry_of(writer.read(sink, QUERY), ranges, batch_id=number)
            with once(point, kill):
                written = writer.write(sink, mortal.frame(rows_of(entry)), entry, plan_of(entry))
            assert point in mortal.unknown or (written.attempts > 1 and not writer.doubtful), point
            assert writer.read(sink, QUERY) == heads_of(entry), point
            assert mortal.offsets() == list(range(3 * number + 3)), point


class Overlaps:
    """The chapter of the stores that have a driver wait for its predecessor."""

    @pytest.mark.parametrize("number", [0, 1])
    def test_a_predecessor_about_to_end(self, store: Store, number: int) -> None:
        """A restart that waits for its lock finds the batch written: a replay, no other driver."""
        plans = Plans({0: {TP: (0, 2)}, 1: {TP: (2, 4)}})
        ranges = [OffsetRange(*plans.ranges[one][TP]) for one in range(2)]
        first, frame = (store.frame(rows_of(entry_of({}, {TP: one}))) for one in ranges)
        old, new = store.sink(), store.sink()
        if number:
            BatchRunner(Run(plans, 0), [old], ArrowFrames()).run(first, 0)
        overlap = Overlap(plans, ArrowFrames())
        overlap.run([old], [new], frame, number)
        assert overlap.failed == []
        assert [type(event) for event in overlap.events] == [BatchReplayed]
        assert len(store.rows()) == 2 + 2 * number
