"""Writes a batch and its ledger entry into one sink, and decides what to do after each failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from eo_listener.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    RetriableSinkError,
    SinkError,
    SinkLockedError,
)
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import Sink
from eo_listener.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """Limits for retries if a store is unavailable or busy, or reports a conflict; in seconds.

    `timeout` runs from the first failure, so the writer repeats even a batch that took an hour
    before it failed. The waits grow from `first` to `longest`. For commits to groups, see
    `Backoff`: no query waits for them, so their retries never end, and their waits are shortened at
    random.
    """

    timeout: float = 60.0
    first: float = 0.1
    longest: float = 5.0

    def pauses(self, clock: Callable[[], float]) -> Iterator[float]:
        """Yield the wait before each retry; `timeout` runs from the request for the first wait.

        The iterator always yields a first wait, unless `timeout` is 0. The last wait ends when the
        time is up.
        """
        ends = clock() + self.timeout
        pause = self.first
        while (remaining := ends - clock()) > 0:
            yield min(pause, remaining)
            pause = min(2 * pause, self.longest)


_Answer = TypeVar("_Answer")

logger = logging.getLogger("eo_listener")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of writing an entry; `applied` is None if only the ledger shows the outcome."""

    applied: Applied | None
    attempts: int


Renew = Callable[[], Any]
"""Computes the rows of a batch again; returns the frame to write."""


class SinkWriter:
    """Writes batches with their ledger entries, and decides what to do after each kind of failure.

    `doubtful` is True if a COMMIT of the last write was not answered.
    """

    def __init__(
        self, retry: RetryLimits, sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self.doubtful = False
        self._retry = retry
        self._sleep = sleep
        self._clock = clock

    def read(self, sink: Sink, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`. Raises SinkError."""
        return self.ask(lambda: sink.applied(query))

    def ask(self, ask: Callable[[], _Answer]) -> _Answer:
        """Call `ask`, which reads a ledger; retry for a while if the store is unavailable.

        Raises SinkError.
        """
        pauses = self._pauses()
        while True:
            try:
                return ask()
            except (RetriableSinkError, SinkLockedError) as error:
                self._pause(pauses, error, "retrying to read the ledger")

    def write(
        self, sink: Sink, frame: Any, entry: Entry, plan: PlannedBatch, renew: Renew | None = None
    ) -> Written:
        """Write the rows of `frame`, and the ledger entry `entry`, exactly once.

        `renew`, if given, computes the rows again and returns the frame for the next attempt. The
        method calls `renew` if Spark has lost rows that were computed before.

        Raises ForeignWriterError, and SinkError if the store did not accept the entry in time, or
        if the ledger does not show whether the store has accepted it.
        """
        remaining, self.doubtful = entry, False
        pauses = self._pauses()
        again = f"retrying batch {entry.batch_id} of {entry.query!r}"
        attempts = 0
        while remaining.moves:
            attempts += 1
            try:
                applied = sink.apply(frame, remaining, plan)
                return Written(applied=applied if remaining is entry else None, attempts=attempts)
            except ForeignWriterError:
                # This may be the same driver: a COMMIT in doubt can take effect while the next
                # attempt waits for its locks, after the ledger was read.
                before = remaining
                remaining = self._missing(sink, entry) if self.doubtful else remaining
                if len(remaining.moves) == len(before.moves):
                    raise
            except OutcomeUnknownError as unknown:
                self.doubtful = True
                remaining = self._found_out(sink, entry, unknown)
                if remaining.moves:
                    self._pause(pauses, unknown, again)
            except (RetriableSinkError, SinkLockedError) as error:
                self._pause(pauses, error, again)
                if renew is not None and isinstance(error, RetriableSinkError) and error.lost_rows:
                    frame = renew()
                if sink.per_partition:  # some of its transactions may have been committed
                    remaining = self._found_out(sink, entry, error)
        return Written(applied=None, attempts=attempts)

    def _pauses(self) -> Iterator[float]:
        return self._retry.pauses(self._clock)

    def _pause(self, pauses: Iterator[float], error: SinkError, again: str) -> None:
        """Wait before the next attempt; raise `error` if the time for retries is over."""
        pause = next(pauses, None)
        if pause is None:
            raise error
        bound = self._retry.timeout
        logger.warning("%s in %.1f s (giving up after %g s): %s", again, pause, bound, error)
        self._sleep(pause)

    def _found_out(self, sink: Sink, entry: Entry, unknown: SinkError) -> Entry:
        """Return the part of `entry` that the ledger lacks; raise `unknown` if all retries fail."""
        pauses = self._pauses()
        while True:
            try:
                return self._missing(sink, entry)
            except SinkError as error:
                pause = next(pauses, None)
                if pause is None:
                    raise unknown from error
                self._sleep(pause)

    def _missing(self, sink: Sink, entry: Entry) -> Entry:
        """Return the part of `entry` that the ledger lacks.

        Raises ForeignWriterError if the ledger holds neither the heads that were read nor the heads
        to be written.
        """
        heads = sink.applied(entry.query)
        missing = {}
        for tp, move in entry.moves.items():
            head = heads.get(tp)
            if head == entry.head(tp):
                continue
            if head != move.expected:
                raise _foreign(sink, entry, tp, head)
            missing[tp] = move
        if missing and len(missing) < len(entry.moves) and not sink.per_partition:
            raise _foreign(sink, entry, next(iter(missing)), None)
        return entry if len(missing) == len(entry.moves) else replace(entry, moves=missing)


def _foreign(sink: Sink, entry: Entry, tp: TopicPartition, head: Head | None) -> ForeignWriterError:
    at = "nothing" if head is None else f"{head.range} of run {head.run_id}"
    return ForeignWriterError(
        f"batch {entry.batch_id} of query {entry.query!r}: another driver moved the ledger of "
        f"{sink.label}: for {tp} it now holds {at}",
        ranges={tp: move.range for tp, move in entry.moves.items()},
        cause="a second driver runs this query, or a newer driver took over while this driver "
        "was paused",
        fix="Stop all drivers of the query but one, and restart the query",
    )
