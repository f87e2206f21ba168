"""Two drivers of one query that write one batch at once, as a restart overlaps its predecessor."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from eo_listener.events import Event, Observers
from eo_listener.foreach_batch.batch_runner import BatchRunner, Frames
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.model.protocols import Sink
from eo_listener.testing.faults import hooked
from tests.foreach_batch.stage import Plans, Run

_PATIENCE = 120
_OLD, _NEW = "the old driver", "the new driver"


class Overlap:
    """The drivers; `events` are what the new one tells, `failed` what either has raised."""

    def __init__(self, plans: Plans, frames: Frames) -> None:
        self.plans = plans
        self.frames = frames
        self.events: list[Event] = []
        self.failed: list[BaseException] = []
        self._judged = threading.Event()

    def run(self, old: Sequence[Sink], new: Sequence[Sink], frame: Any, number: int) -> None:
        """Run a batch by both: the old one commits when the new one has read the ledger."""
        inside = threading.Event()

        def hook(point: str) -> None:
            who = threading.current_thread().name
            if who == _OLD and point == "sink.ledger-moved":
                inside.set()
                self._judged.wait(_PATIENCE)
            if who == _NEW and point == "batch.judged":
                self._judged.set()

        with hooked(hook):
            first = self._thread(_OLD, old, frame, number)
            inside.wait(_PATIENCE)
            second = self._thread(_NEW, new, frame, number)
            for thread in (first, second):
                thread.join(_PATIENCE)
        assert not first.is_alive()
        assert not second.is_alive()

    def _thread(self, who: str, sinks: Sequence[Sink], frame: Any, number: int) -> threading.Thread:
        steps = BatchRunner(
            Run(self.plans, len(who) + number * 100 + (who == _NEW)),
            sinks,
            self.frames,
            observers=Observers(self.events.append) if who == _NEW else None,
            process=ProcessWrites(),
        )

        def work() -> None:
            try:
                steps.run(frame, number)
            except BaseException as error:  # noqa: BLE001  # shown by the test's own thread
                self.failed.append(error)
            finally:
                self._judged.set()

        thread = threading.Thread(target=work, name=who)
        thread.start()
        return thread
