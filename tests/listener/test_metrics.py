"""What a listener does beside committing: numbers for Prometheus, and the check at its start."""

from __future__ import annotations

import logging
import socket
import time
import urllib.request

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import functions

from eo_listener import OffsetCommitListener
from eo_listener.events import QueryProgressed, RunGroupsChanged
from eo_listener.observers.metrics.prometheus import Prometheus
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_backlog_is_reported_while_it_is_read(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Batches of 40 out of 100 records: the lag falls by steps, and the query ends at none."""
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

    told = recording.of(QueryProgressed)
    seen = [sum((one.log_ends or one.ends).values()) for event in told for one in event.sources]
    assert set(seen) == {100}
    fed = recording.of(RunGroupsChanged)
    assert [(event.query, event.ended) for event in fed] == [(group, False), (group, True)]

    def number(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"eo_listener_{name}", labels) or 0.0

    of_group = {"cluster": topics.servers, "consumergroup": group, "topic": topic}
    assert number("consumergroup_current_offset", **of_group, partition="0") == 100
    assert number("consumergroup_lag_sum", **of_group) == 0
    assert number("query_batch_id", query=group) == 2
    assert number("query_input_rows", query=group) == 20
    assert number("query_processed_rows_per_second", query=group) > 0
    assert begun < number("query_last_batch_timestamp_seconds", query=group) <= time.time()
    assert number("query_event_time_lag_seconds", query=group) > 10 * 365 * 86400.0


def test_a_listener_serves_its_numbers(
    recording: Recording, queries: Queries, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the group stands is scraped over loopback; a second listener commits without a port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    listener = recording.add(OffsetCommitListener(metrics_port=port))
    with caplog.at_level(logging.WARNING, "eo_listener"):
        second = recording.add(
            OffsetCommitListener(metrics_port=port, group_template="second-{query_name}")
        )
    assert f"127.0.0.1:{port}" in caplog.text
    topic, group, name = topics.create(partitions=1), unique("g"), unique("q")
    topics.fill(topic, 7)
    queries.drain(queries.read(subscribe=topic, kafka__consumer__commit__groupid=group), name=name)
    assert listener.flush()
    assert second.flush()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    (line,) = (
        line
        for line in page.splitlines()
        if line.startswith("eo_listener_consumergroup_current_offset{") and group in line
    )
    assert line.endswith(" 7.0")
    queries.assert_drained(group, topic, partitions=1)


@pytest.mark.slow
def test_a_listener_checks_its_group_when_it_begins(
    recording: Recording, queries: Queries, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """The log warns of a recommit_interval longer than the broker keeps offsets; the query runs."""
    recording.add(OffsetCommitListener(recommit_interval=30 * 86400.0))
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 1)
    with caplog.at_level(logging.WARNING, "eo_listener"):
        queries.drain(queries.read(subscribe=topic, kafka__consumer__commit__groupid=group))
        until(lambda: "preflight" in caplog.text, 90)
    assert "offsets.retention.minutes" in caplog.text
