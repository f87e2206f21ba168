"""A query's way through one topic, without Kafka: frames, plans and entries as a driver has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from eo_listener import fault_points
from eo_listener.ledger import Applied, Entry, Move, Verdict
from eo_listener.offsets import Span, TopicPartition
from eo_listener.plan import Plan
from eo_listener.protocols import Sink

TP = TopicPartition("flights", 0)
QUERY = "delays"


@dataclass
class Course:
    """One run of a query; `write` takes a frame as its next batch."""

    sink: Sink
    run: str = "run-1"
    batch: int = 0
    query: str = QUERY
    tp: TopicPartition = TP
    last: Entry | None = field(default=None)

    def entry(self, rows: int, verdict: Verdict | None = Verdict.NEXT) -> Entry:
        """What the next batch of `rows` offsets writes into the ledger."""
        found = self.sink.applied(self.query).get(self.tp)
        start = found.span.until if found else 0
        move = Move(
            source=0,
            span=Span(start, start + rows),
            topic_id="id",
            verdict=verdict if rows else None,
            found=found,
        )
        return Entry(
            query=self.query,
            query_id="query-1",
            run_id=self.run,
            batch_id=self.batch,
            moves={self.tp: move},
        )

    def plan(self, spans: Mapping[TopicPartition, Span]) -> Plan:
        """The plan behind an entry."""
        return Plan(
            query_id="query-1",
            run_id=self.run,
            query=self.query,
            batch_id=self.batch,
            sources={0: spans},
            topic_ids={},
            log_starts={},
            log_ends={},
        )

    def write(self, frame: Any, rows: int | None = None) -> Applied:
        """Apply `frame` as the next batch; `rows` offsets are planned, by default as it has."""
        entry = self.entry(frame.count() if rows is None else rows)
        return self.again(frame, entry)

    def again(self, frame: Any, entry: Entry) -> Applied:
        """Apply `entry`, also one that was tried before."""
        self.last = entry
        spans = {tp: move.span for tp, move in entry.moves.items()}
        applied = self.sink.apply(frame, entry, self.plan(spans))
        self.batch += 1
        return applied


def rows_of(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Ask the server on a connection of the test's own."""
    with psycopg.connect(dsn) as link:
        return link.execute(query.encode()).fetchall()


def head(dsn: str) -> int | None:
    """Where the ledger stands, None without a head."""
    found = rows_of(dsn, "SELECT next_offset FROM eo_ledger")
    return found[0][0] if found else None


@contextmanager
def at(point: str, act: Any, occurrence: int = 1) -> Iterator[None]:
    """Do `act` when the fault point is reached for the n-th time."""
    seen = 0

    def hook(name: str) -> None:
        nonlocal seen
        if name == point:
            seen += 1
            if seen == occurrence:
                act()

    fault_points.arm(hook)
    try:
        yield
    finally:
        fault_points.arm(None)
    assert seen >= occurrence, f"{point} was not reached"
