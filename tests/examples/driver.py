"""A driver for the tests of the alerts: ours, but for Spark and Kafka; a minute is a second."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.commit.tracking.event_buffer import Ended, Idle, Started
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.errors import FormatError, GuardError
from eo_listener.events import Observers
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import LivePosition
from eo_listener.observers.metrics import open_metrics
from eo_listener.offsets import Offsets, Position, TopicPartition
from eo_listener.testing import MemoryGroups, MemoryQueries, MemorySink
from tests.foreach_batch.stage import Frame, ListFrames, Plans, frame_of

CLUSTER = "k:9092"
P0 = TopicPartition("t", 0)
TIMES = 60
HOUR = 3600 / TIMES
ALL = 1_000_000  # more records than there ever are
_BATCHES = 0.5  # seconds between two
_CLOSING = 3.0  # seconds
_RETRY = Backoff(
    first=0.1,
    longest=15 / TIMES,
    refused_first=0.1,
    refused_longest=60 / TIMES,
    repeat_after=60 / TIMES,
    persistent_after=60 / TIMES,
)


class SinkOfSome(MemorySink):
    """One that has the first `refused` rows of each batch among its dead letters."""

    refused = 0

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the others."""
        rows = frame.collect()
        dead = min(self.refused, len(rows))
        return replace(super().apply(Frame(rows[dead:]), entry, plan), dead_letters=dead)


class Driver:
    """A driver with one query; that, its group and its instance have one name.

    `written` are the records that come between two batches, `step` the most that one takes, `end`
    and `log_end` where both stand. Without `listens` it has no listener, with `sink` an
    exactly_once; `recommit` is the interval. What is changed of `plans`, `queries`, `guard` or
    `on_gap` counts from the next `restart` on.
    """

    def __init__(
        self,
        name: str,
        *,
        listens: bool = True,
        sink: MemorySink | None = None,
        backlog: int = 0,
        written: int = 10,
        step: int = ALL,
        recommit: float = HOUR,
        **how: Any,
    ) -> None:
        self.name = name
        self.written, self.step = written, step
        self.end, self.log_end = 0, backlog
        self.sources = 1
        self.hangs = self.over = False
        self.store = MemoryGroups()
        self.queries = MemoryQueries({0: self.options(), 1: self.options()})
        self.plans = Plans({}, query=name)
        self.sink, self.how = sink, how
        self.guard = GuardMode.WITHHOLD
        self._listens, self._recommit = listens, recommit
        self._batch, self._runs = 0, 0
        self._lock = threading.RLock()
        self.metrics = open_metrics(0)
        self.port = self.metrics.port or 0
        self._open()

    def options(self, group: str | None = None) -> Mapping[str, str]:
        """Those of its source; the group is its own unless another is given."""
        named = self.name if group is None else group
        return {"kafka.bootstrap.servers": CLUSTER, "kafka.consumer.commit.groupid": named}

    @property
    def held(self) -> int:
        return self.store.groups.get(self.name, {}).get(P0, Position(offset=0, metadata="")).offset

    def batch(self) -> None:
        """Write records and end a batch that has taken them, or be idle; not while it restarts."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self.log_end += self.written
            self.store.ends[P0] = self.log_end
            if self.hangs or self.over:
                return
            if self.end == self.log_end:
                self._tracker.put(Idle(self._run_id))
                return
            start, self.end = self.end, min(self.end + self.step, self.log_end)
            self._run_batch(start)
        finally:
            self._lock.release()

    def skip(self, records: int, *, batches: int = 0) -> None:
        """Let the next batch begin behind where the one before it ended."""
        with self._lock:
            self.end += records
            self.log_end += records
            self._batch += batches

    def arrives(self, text: str) -> None:
        """A progress event, as `CommitService` takes it."""
        try:
            self._tracker.put(Progress.parse(text))
        except FormatError as error:
            self._tracker.put(error)

    def restart_query(self) -> None:
        with self._lock:
            self.end_query()
            self._begin_run()

    def end_query(self) -> None:
        with self._lock:
            self.over = True
            self._tracker.put(Ended(self._run_id))

    def restart(self, *, back: int = 0) -> None:
        """End the process in order, and begin another one, that many records before."""
        with self._lock:
            self.close()
            self.end -= back
            self.metrics = open_metrics(self.port)
            self._open()

    def close(self) -> None:
        with self._lock:
            self.over = True
            self._tracker.close(time.monotonic() + _CLOSING)
            self._committer.close(_CLOSING)
            self.metrics.close()

    def _open(self) -> None:
        observers = Observers(self.metrics)
        policy = Policy(
            snapshot_max_age=60 / TIMES, accept_marks=self.guard is not GuardMode.WITHHOLD
        )
        self._committer = Committer(
            lambda cluster: self.store, observers=observers, retry=_RETRY, policy=policy
        )
        self._tracker = TrackerThread(
            GroupRouting(),
            self.queries,
            self._committer,
            observers,
            guard=self.guard,
            recommit_interval=self._recommit,
        )
        self._runner: BatchRunner | None = None
        if self.sink is not None:
            self._runner = BatchRunner(
                self.plans,
                [self.sink],
                ListFrames(),
                observers=observers,
                process=ProcessWrites(),
                **self.how,
            )
        self._begin_run()

    def _begin_run(self) -> None:
        self._runs += 1
        self.plans.run_id = self._run_id
        self.over = False
        if self._listens:
            self._done()
            self._tracker.put(Started(self._query_id, self._run_id, self.name))

    @property
    def _run_id(self) -> str:
        return f"run-{self._runs}"

    @property
    def _query_id(self) -> str:
        return f"id-of-{self.name}"

    def _done(self) -> None:
        """What the checkpoint has, where there is any."""
        if self.end:
            committed = dict.fromkeys(range(self.sources), Offsets({P0: self.end}))
            position = LivePosition(batch_id=self._batch - 1, committed=committed)
            self.queries.positions[self._run_id] = position

    def _run_batch(self, start: int) -> None:
        if self._runner is not None:
            self.plans.ranges = {self._batch: {P0: (start, self.end)}}
            try:
                self._runner.run(frame_of(self.plans.ranges[self._batch]), self._batch)
            except GuardError:  # it was counted; the query has failed with it
                self.over = True
                return
        event = self._event(start)
        self._batch += 1
        if self._listens:
            self._done()
            self.arrives(event)

    def _event(self, start: int) -> str:
        source = {
            "description": "KafkaV2[Subscribe[t]]",
            "startOffset": {"t": {"0": start}},
            "endOffset": {"t": {"0": self.end}},
            "latestOffset": {"t": {"0": self.log_end}},
        }
        return json.dumps(
            {
                "id": self._query_id,
                "runId": self._run_id,
                "name": self.name,
                "timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "batchId": self._batch,
                "numInputRows": self.end - start,
                "durationMs": {"triggerExecution": 50, "latestOffset": 1},
                "sources": [source] * self.sources,
            }
        )


@contextmanager
def running(drivers: Sequence[Driver]) -> Iterator[None]:
    """Twice a second a batch of each; all are closed at the end."""
    ended = threading.Event()

    def run_batches() -> None:
        while not ended.wait(_BATCHES):
            for driver in drivers:
                driver.batch()

    with ThreadPoolExecutor(1, "batches") as pool:
        batches = pool.submit(run_batches)
        try:
            yield
        finally:
            ended.set()
            batches.result()
            for driver in drivers:
                driver.close()
