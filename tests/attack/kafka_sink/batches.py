"""Batches that are written one after the other, as a query would; a record has "batch.row"."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.model.ledger import Entry
from eo_listener.model.protocols import Sink
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of

MakeFrame = Callable[[int, int], Any]
"""The rows of a batch, by its number and their count."""

RETRY = RetryLimits(timeout=60.0, first=0.05, longest=0.5)


@dataclass(kw_only=True)
class Batches:
    """Writes batches of `size` rows, each of as many offsets of one source partition."""

    sink: Sink
    source: TopicPartition
    size: int
    run_id: str = "run-1"
    retry: RetryLimits = RETRY
    last: Entry | None = None

    def write(self, make_frame: MakeFrame) -> tuple[int, int]:
        """Write the next batch; return its number, and the attempts it took."""
        writer = SinkWriter(self.retry, time.sleep, time.monotonic)
        heads = writer.read(self.sink, QUERY)
        start = heads[self.source].range.until if self.source in heads else 0
        number = start // self.size
        entry = entry_of(
            heads,
            {self.source: OffsetRange(start, start + self.size)},
            batch_id=number,
            run_id=self.run_id,
            topic_id=None,
        )
        frame = make_frame(number, self.size)
        written = writer.write(self.sink, frame, entry, plan_of(entry))
        self.last = entry
        return number, written.attempts
