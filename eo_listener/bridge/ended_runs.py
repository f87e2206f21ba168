"""Tells the JVM of runs that need no more care: it keeps what they told, for another bridge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from eo_listener.commit.groups.waiting import Groups, Waiting
from eo_listener.model.events import Event, RunGroupsChanged

SHORTEST: Final = 0.2  # seconds between two looks at what waits
LONGEST: Final = 5.0


class Settler:
    """Says it of each ended run when what it has reached is committed, or refused.

    By Kafka or by ourselves: that may last forever. A bridge that dies before a run is settled
    leaves its successor all it needs to commit it. An observer, for the groups of each run.

    Kafka is not asked here, only what the committer knows: how often it tries is its own affair.
    """

    def __init__(self, settled: Callable[[str], None]) -> None:
        self._settled = settled
        self._groups: dict[str, frozenset[tuple[str, str]]] = {}
        self._left: dict[str, frozenset[Waiting]] = {}
        self._added: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        """Take in which groups a run feeds; returns at once."""
        if isinstance(event, RunGroupsChanged) and not event.ended:
            with self._changed:
                self._groups[event.run_id] = event.groups

    def add(self, run_id: str) -> None:
        """A run has ended, and all it has reached was offered. Returns at once."""
        with self._changed:
            self._added.append(run_id)
            self._changed.notify()

    def start(self, waiting: Callable[[Groups], frozenset[Waiting]]) -> None:
        """Begin, on a thread of its own; `waiting` says what waits for Kafka in some groups."""
        threading.Thread(
            target=self._work, args=(waiting,), name="eo-listener-settler", daemon=True
        ).start()

    def _work(self, waiting: Callable[[Groups], frozenset[Waiting]]) -> None:
        pause = SHORTEST
        while True:
            with self._changed:
                if not self._added:
                    self._changed.wait(pause if self._left else None)
                pause = SHORTEST if self._added else min(LONGEST, pause * 2)
            self.look(waiting)

    def look(self, waiting: Callable[[Groups], frozenset[Waiting]]) -> None:
        """Say it of the runs of which nothing waits any more. For one thread."""
        with self._changed:
            added, self._added = self._added, []
            # One that is told twice still waits for what it waited for.
            added = [run_id for run_id in added if run_id not in self._left]
            new = {run_id: self._groups.pop(run_id, frozenset()) for run_id in added}
        for run_id, groups in new.items():
            self._left[run_id] = waiting(groups)
        still = waiting({(one.cluster, one.group) for left in self._left.values() for one in left})
        # An offset that has given way to a greater one is that of a run that is kept itself.
        self._left = {run_id: left & still for run_id, left in self._left.items()}
        for run_id in [run_id for run_id, left in self._left.items() if not left]:
            del self._left[run_id]
            self._settled(run_id)
