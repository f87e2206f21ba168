"""What Spark itself says of a query arrives as numbers: lag while it reads, event time, rates."""

from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import functions

from eo_listener import OffsetCommitListener
from eo_listener.model.events import QueryProgressed, RunGroupsChanged
from eo_listener.observers.metrics.prometheus import Prometheus
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_backlog_is_reported_while_it_is_read(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Batches of 40 out of 100 records: the lag falls by steps, and the query ends at none.

    Event time is told because the query has a watermark.
    """
    registry = CollectorRegistry()
    listener = recording.add(
        OffsetCommitListener(observers=[Prometheus(registry), recording.events.append])
    )
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 100)
    begun = time.time()
    source = queries.read(
        subscribe=topic, kafka__consumer__commit__groupid=group, maxOffsetsPerTrigger="40"
    )
    timed = source.withColumn("at", functions.lit("2013-01-01 00:00:00").cast("timestamp"))
    queries.drain(timed.withWatermark("at", "1 minute"), name=group)
    assert listener.flush()

    told = [event for event in recording.events if isinstance(event, QueryProgressed)]
    seen = [sum((one.log_ends or one.ends).values()) for event in told for one in event.sources]
    assert set(seen) == {100}
    fed = [event for event in recording.events if isinstance(event, RunGroupsChanged)]
    assert [(event.query, event.ended) for event in fed] == [(group, False), (group, True)]

    labels = {
        "cluster": queries.broker.bootstrap_servers,
        "consumergroup": group,
        "topic": topic,
        "partition": "0",
    }
    assert registry.get_sample_value("eo_listener_consumergroup_current_offset", labels) == 100
    assert registry.get_sample_value("eo_listener_consumergroup_lag", labels) == 0
    query = {"query": group}
    assert registry.get_sample_value("eo_listener_query_batch_id", query) == 2
    assert registry.get_sample_value("eo_listener_query_input_rows", query) == 20
    rate = registry.get_sample_value("eo_listener_query_processed_rows_per_second", query)
    assert rate is not None
    assert rate > 0
    done = registry.get_sample_value("eo_listener_query_last_batch_timestamp_seconds", query)
    assert done is not None
    assert begun < done <= time.time()
    event_lag = registry.get_sample_value("eo_listener_query_event_time_lag_seconds", query)
    assert event_lag is not None
    assert event_lag > 10 * 365 * 86400.0
