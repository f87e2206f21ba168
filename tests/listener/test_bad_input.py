"""A user's mistake is one clear line, with the option to change; the query runs on."""

from __future__ import annotations

import logging

import pytest

from eo_listener import OffsetCommitListener
from eo_listener.model.errors import SettingsError
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize(
    ("options", "level", "words"),
    [
        ({}, logging.INFO, ["no consumer group is named", "kafka.consumer.commit.groupid"]),
        ({"eo__commit__group": ""}, logging.WARNING, ["eo.commit.group is empty"]),
        (
            {"kafka__consumer__commit__group__id": "g"},
            logging.WARNING,
            ["kafka.consumer.commit.group.id", "write .option('kafka.consumer.commit.groupid'"],
        ),
    ],
)
def test_a_wrong_group_option(
    options: dict[str, str],
    level: int,
    words: list[str],
    listener: OffsetCommitListener,
    queries: Queries,
    topics: Topics,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Said once for the source, not once a batch; nothing is committed; the query is unhurt."""
    topic = topics.create()
    query = queries.start(queries.read(subscribe=topic, **options), name="q", drain=False)
    with caplog.at_level(logging.INFO, "eo_listener"):
        for _ in range(3):
            topics.fill(topic, 5)
            query.processAllAvailable()
        assert listener.flush()
    query.stop()
    assert query.exception() is None
    (record,) = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith("query q, source 0: ")
    for word in words:
        assert word in record.getMessage()


@pytest.mark.parametrize(("groups", "level"), [({}, logging.INFO), ({"r": "g"}, logging.WARNING)])
def test_a_query_without_kafka(
    groups: dict[str, str],
    level: int,
    recording: Recording,
    queries: Queries,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Said once, as a warning only where a group was named for it; the query is unhurt."""
    listener = recording.add(OffsetCommitListener(groups))
    rate = queries.spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    with caplog.at_level(logging.INFO, "eo_listener"):
        query = queries.start(rate, name="r", drain=False)
        query.processAllAvailable()
        assert listener.flush()
        query.stop()
    assert query.exception() is None
    (record,) = caplog.records
    assert record.levelno == level
    assert "reads nothing from Kafka" in record.getMessage()


def test_settings_are_checked_when_given() -> None:
    """Unknown client properties and empty groups raise at once, and show no value."""
    with pytest.raises(SettingsError, match=r"nosuch\.property"):
        OffsetCommitListener(kafka={"nosuch.property": "hunter2"})
    with pytest.raises(SettingsError, match="must be the name of a consumer group"):
        OffsetCommitListener({"q": ""})
    with pytest.raises(SettingsError, match="cannot be used"):
        OffsetCommitListener(group_template="{nosuch}")
    with pytest.raises(SettingsError) as refused:
        OffsetCommitListener(kafka={"sasl.password": "hunter2", "security.protocol": "NOSUCH"})
    assert "hunter2" not in str(refused.value)


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
