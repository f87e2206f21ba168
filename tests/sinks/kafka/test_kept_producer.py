"""Batches without transactions share a producer, as long as all goes well."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY
from tests.attack.record_batches import records
from tests.broker import Broker
from tests.sinks.kafka.conftest import Place, batch, put, table, write

pytestmark = pytest.mark.kafka


def producers(broker: Broker, topic: str) -> list[int]:
    """The producer id of each record of a topic of one partition, as the broker has stored it."""
    (folder,) = broker.data.glob(f"**/{topic}-0")
    (segment,) = folder.glob("*.log")
    return [record.producer_id for record in records(segment.read_bytes())]


def test_batches_that_go_well_have_one_producer_id(place: Place, broker: Broker) -> None:
    """Brokers remember each id for a day. A try that has failed may still send, so it is over."""
    topic = place.topics.create("target", 1)
    sink = place.sink(topic, transactions=False, id="value")
    for number in range(3):
        write(sink, number)
    entry = batch(sink.applied(QUERY), 3)
    with broken_off("sink.rows-written"), pytest.raises(Killed):
        put(sink, entry, table("row 3"))
    assert put(sink, entry, table("row 3")).rows == 1
    write(sink, 4)
    assert place.values(topic) == [f"row {number}" for number in range(5)]
    first, *others = dict.fromkeys(ids := producers(broker, topic))
    assert [ids.count(first), len(others), ids.count(others[-1])] == [4, 1, 1]


def test_a_target_that_gets_partitions_is_written_by_a_new_producer(place: Place) -> None:
    """What the one before knows of the topic is old: it has no such partition."""
    topic = place.topics.create("target", 1)
    sink = place.sink(topic, transactions=False, id="value")
    write(sink)
    place.topics.widen(topic, 3)
    write(sink, 1, table("row 1", "row 2", partition=pa.array([1, 2], pa.int32())))
    assert place.values(topic) == ["row 0", "row 1", "row 2"]
