"""What several ledgers say together of where a query stands."""

from __future__ import annotations

import pytest

from eo_listener.foreach_batch.starting_offsets.origins import of_heads, of_ledger
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import BatchVerdict, Entry, Move
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink
from tests.foreach_batch.plans import head_of
from tests.foreach_batch.stage import Frame, Plans

P0 = TopicPartition("t", 0)


def ledger(topic_id: str | None) -> MemorySink:
    """A sink that has two records of the topic with this id."""
    sink = MemorySink()
    move = Move(0, OffsetRange(0, 2), topic_id, BatchVerdict.FIRST, None)
    entry = Entry(query="q", query_id="i", run_id="r", batch_id=0, moves={P0: move})
    sink.apply(Frame([]), entry, Plans({0: {P0: (0, 2)}}).plan(None, 0))
    return sink


def test_ledgers_of_two_topics_of_one_name_do_not_agree() -> None:
    """The same offset means other records; a ledger that knows no id agrees with any."""
    old, new, unknown = (ledger(topic_id) for topic_id in ("one", "two", None))
    for two in ([old, new], [new, old], [unknown, old, new]):
        with pytest.raises(SettingsError, match=r"do not agree: t-0 .* recreated topic"):
            of_ledger(two, "q")
    assert of_ledger([unknown, new], "q").topic_ids == {P0: "two"}
    assert of_ledger([new, new], "q").offsets == {P0: 2}


def test_a_ledger_without_kafka_is_no_start() -> None:
    """Of a query that reads other sources alone there are no starting offsets."""
    with pytest.raises(SettingsError, match="no offsets of Kafka"):
        of_heads("a table", "q", {BATCHES: head_of(0, 1)})
