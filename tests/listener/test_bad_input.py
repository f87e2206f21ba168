"""A user's mistake is one clear line, with the option to change; the query runs on."""

from __future__ import annotations

import logging
from functools import reduce

import pytest
from pyspark.sql import DataFrame

from eo_listener import OffsetCommitListener
from tests.listener.queries import Queries
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_wrong_group_options(
    listener: OffsetCommitListener,
    queries: Queries,
    topics: Topics,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each is named once for its source, not once a batch; the query is unhurt."""
    topic = topics.create()
    options = [{}, {"eo__commit__group": ""}, {"kafka__consumer__commit__group__id": "g"}]
    sources = [queries.read(subscribe=topic, **one) for one in options]
    query = queries.start(reduce(DataFrame.union, sources), name="q", drain=False)
    with caplog.at_level(logging.INFO, "eo_listener"):
        for _ in range(3):
            topics.fill(topic, 5)
            query.processAllAvailable()
        assert listener.flush()
    query.stop()
    assert query.exception() is None
    named = [
        (logging.INFO, "kafka.consumer.commit.groupid"),
        (logging.WARNING, "eo.commit.group"),
        (logging.WARNING, "kafka.consumer.commit.group.id"),
    ]
    assert len(caplog.records) == len(named)
    for number, (record, (level, option)) in enumerate(zip(caplog.records, named, strict=True)):
        assert record.levelno == level
        assert record.getMessage().startswith(f"query q, source {number}: ")
        assert option in record.getMessage()


def test_secrets_stay_out_of_the_log(
    queries: Queries, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """Reader options hold passwords; no line, event or repr shows one."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 5)
    told: list[object] = []
    listener = OffsetCommitListener(observers=[told.append], kafka={"sasl.password": "hunter2"})
    queries.spark.streams.addListener(listener)
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        source = queries.read(
            subscribe=topic,
            eo__commit__group=group,
            kafka__ssl__key__password="hunter3",  # noqa: S106  # planted, to be looked for
        )
        queries.drain(source)
        assert listener.flush()
    queries.spark.streams.removeListener(listener)
    listener.close()
    inner = [
        listener._service._tracker._tracker._routing,
        listener._service._committer._workers,
        listener._service._tracker._tracker._runs,
    ]
    shown = caplog.text + repr(told) + repr(listener) + repr(inner)
    assert "commits have begun" in caplog.text
    assert told
    assert "hunter2" not in shown
    assert "hunter3" not in shown
