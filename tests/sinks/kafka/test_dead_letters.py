"""Rows that cannot be sent: in a topic of their own, in the batch's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.dead_letters import DeadLettersChapter
from tests.sinks.chapters.target_table import Row, record_batch
from tests.sinks.kafka.conftest import Place, letters, put, table, write

pytestmark = pytest.mark.kafka


class TestThroughTheDriver(DeadLettersChapter):
    """With transactions; the executors have none of them."""

    knows_origins = False  # the columns topic and partition say where a record is to go

    @pytest.fixture
    def _store(self, place: Place) -> None:
        self.place = place
        self.letters_table = place.topics.create("dead", 1)

    def new_sink(self, **arguments: Any) -> KafkaSink:
        """On the target."""
        return self.place.sink(**arguments)

    def apply(self, sink: Any, rows: Sequence[Row], kinds: Mapping[str, str], at: Entry) -> Applied:
        """With the word as a record's value."""
        batch = record_batch(rows, kinds)
        names = ["value" if name == "word" else name for name in batch.schema.names]
        return put(sink, at, pa.Table.from_batches([batch]).rename_columns(names))

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        """Under read_committed."""
        assert columns == ("word",)
        return [(value,) for value in self.place.values()]

    def letters(self) -> list[dict[str, Any]]:
        """Under read_committed."""
        origin = dict.fromkeys(("topic", "partition", "offset"))
        return [
            {**one, **origin, "row": one["row"].replace('"value":', '"word":')}
            for one in letters(self.place, self.letters_table)
        ]


def test_records_that_cannot_be_sent(place: Place) -> None:
    """Each with its reason, beside the record that can."""
    dead = place.topics.create("dead", 1)
    partition = pa.array([None, 7, None], pa.int32())
    rows = table("a", "b", "x" * 1_100_000, partition=partition)
    sink = place.sink(dead_letters=dead, max_dead_letters=2)
    assert write(sink, rows=rows) == Applied(rows=1, dead_letters=2)
    assert place.values() == ["a"]
    found = {one["reason"]: (one["query"], one["row"] is None) for one in letters(place, dead)}
    assert found == {
        f"its partition is 7, and topic {place.target} has 2": (QUERY, False),
        "it is larger than kafka.max.request.size (1,000,000 bytes by default)": (QUERY, True),
    }
