"""Which answers of a broker are none yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError as Answer

from eo_listener.kafka import cluster_reader
from eo_listener.kafka.cluster_reader import ClusterReader
from eo_listener.kafka.logs import Held
from eo_listener.model.errors import KafkaError
from eo_listener.model.kafka_errors import COORDINATOR_MOVES, LEADER_MOVES, NO_TOPIC, PASSING
from eo_listener.model.offsets import Position, TopicPartition

TP = TopicPartition("t", 0)


def test_the_names_are_those_of_librdkafka_or_of_java() -> None:
    """A misspelt one would never be met; what Java alone names so is listed here."""
    by_java = {"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR"}
    known = {Answer(code).name() for code in (*range(-200, 0), *range(130))}
    assert {*COORDINATOR_MOVES, *LEADER_MOVES, *NO_TOPIC, *PASSING} - known <= by_java


def answers(*codes: str) -> Callable[..., Held]:
    """A reading that is refused with these codes first."""
    left: Iterator[str] = iter(codes)

    def ask(*_: object) -> Held:
        for code in left:
            raise KafkaError("not now", code=code)
        return Held(positions={TP: Position(offset=5)}, errors={})

    return ask


def test_a_reader_waits_for_a_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is being made or moves gives no answer about the group, so it is asked again."""
    monkeypatch.setattr(cluster_reader, "group_offsets", answers(*sorted(COORDINATOR_MOVES)))
    found = ClusterReader({"bootstrap.servers": "127.0.0.1:1"}).group("g", [TP])
    assert found == {TP: Position(offset=5)}


def test_a_reader_waits_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout the coordinator's error is raised."""
    monkeypatch.setattr(cluster_reader, "group_offsets", answers(*["NOT_COORDINATOR"] * 1000))
    with pytest.raises(KafkaError) as late:
        ClusterReader({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.5).group("g", [TP])
    assert late.value.code == "NOT_COORDINATOR"


@pytest.mark.parametrize("code", ["GROUP_AUTHORIZATION_FAILED", "_TRANSPORT"])
def test_a_reader_does_not_wait_for_a_refusal(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A refusal is raised at once."""
    monkeypatch.setattr(cluster_reader, "group_offsets", answers(code))
    with pytest.raises(KafkaError) as refused:
        ClusterReader({"bootstrap.servers": "127.0.0.1:1"}).group("g", [TP])
    assert refused.value.code == code


def test_a_topic_that_is_refused_is_an_error_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never left out as if the group held nothing there."""
    held = Held(positions={}, errors={"t": "TOPIC_AUTHORIZATION_FAILED"})
    monkeypatch.setattr(cluster_reader, "group_offsets", lambda *_: held)
    with pytest.raises(KafkaError) as refused:
        ClusterReader({"bootstrap.servers": "127.0.0.1:1"}).group("g", [TP])
    assert refused.value.code == "TOPIC_AUTHORIZATION_FAILED"
