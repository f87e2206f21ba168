"""What the chapters on ledgers use of a store: its folder has a `Store`, and a fixture `store`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.protocols import Sink
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import FRAME, QUERY, Row, entry_of, plan_of, rows_of
from tests.sinks.arrow_frame import ArrowFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eo_listener.sinks.ledger_repair import LedgerRepair

TP, OTHER = TopicPartition("flights", 0), TopicPartition("flights", 1)


NAMES = [field.split()[0] for field in FRAME.split(", ")]


def frame_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """A frame that the JVM makes by itself, in a tenth of the time of createDataFrame."""
    given = json.dumps([dict(zip(NAMES, row, strict=True)) for row in rows])
    # Without parameters, which the parser of Delta 4.1 does not know on Spark 4.1.
    text = given.replace("\\", "\\\\").replace("'", "\\'")
    return spark.sql(f"SELECT inline(from_json('{text}', 'array<struct<{FRAME}>>'))")


class Store(ABC):
    """A table of a test's own, and its ledger; what is opened is closed with `opened`."""

    first = "first"
    """The verdict of the first range in the history."""

    def __init__(self) -> None:
        self.opened = ExitStack()

    # What a store gives.

    @property
    @abstractmethod
    def name(self) -> str:
        """The key of a sink on the table, as the ledger has it."""

    @abstractmethod
    def make_sink(self) -> Sink:
        """Open a sink on the table, as another driver does."""

    def frame(self, rows: list[Row]) -> Any:
        return ArrowFrame.rows(FRAME, *rows)

    @abstractmethod
    def rows(self) -> list[Row]:
        """Read the table, in any order."""

    @abstractmethod
    def make_repair(self) -> LedgerRepair:
        """Open what repairs the ledger."""

    def state(self) -> object:
        """Say what changes with each commit to the table, where the store tells."""
        return ()

    # What the chapters make of it.

    def sink(self) -> Any:
        return self.opened.enter_context(closing(self.make_sink()))

    def repair(self) -> LedgerRepair:
        return self.opened.enter_context(closing(self.make_repair()))

    def key(self, query: str = QUERY) -> LedgerKey:
        return LedgerKey(self.name, query)

    def heads(self, query: str = QUERY) -> dict[TopicPartition, Head]:
        """What a new driver reads."""
        return dict(self.sink().applied(query))

    def offsets(self) -> list[int]:
        """The source's offsets of the rows, in order."""
        return sorted(offset for _, _, offset, _ in self.rows())

    def put(self, sink: Any, entry: Entry) -> Applied:
        """Apply `entry`, with a row for each of its offsets."""
        applied: Applied = sink.apply(self.frame(rows_of(entry)), entry, plan_of(entry))
        return applied

    def write(
        self,
        ranges: Mapping[TopicPartition, OffsetRange],
        number: int = 0,
        *,
        query: str = QUERY,
        found: Mapping[TopicPartition, Head] | None = None,
    ) -> Entry:
        """Write batch `number` by a new driver, which has found these heads."""
        sink = self.sink()
        now = sink.applied(query)
        entry = entry_of(now if found is None else found, ranges, batch_id=number, query=query)
        self.put(sink, entry)
        return entry


@contextmanager
def at(acts: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    """Do each act when its fault point is reached for the first time; all of them must be."""
    due = dict(acts)

    def hook(name: str) -> None:
        act = due.pop(name, None)
        if act is not None:
            act()

    with hooked(hook):
        yield
    assert not due, f"not reached: {', '.join(due)}"


def once(point: str, act: Callable[[], object]) -> AbstractContextManager[None]:
    """Act when a fault point is reached for the first time; it must be."""
    return at({point: act})
