"""What a repair of a group says of its outcome, known in part or not at all; no broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eo_listener.commit.groups.group_change import GroupChange
from eo_listener.kafka import group_repair
from eo_listener.kafka.group_repair import GroupRepair
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import Position, TopicPartition

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
AUTHOR = CommitMetadata(name="", query_id="", run_id="12345678", batch_id=-1, command="group seed")


class Committed:
    """Takes every commit."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Need nothing of the cluster."""

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        return dict.fromkeys(positions)

    def close(self) -> None:
        """Have nothing to close."""


class Refused(Committed):
    """Takes no commit of the topic `u`."""

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        return {tp: "TOPIC_AUTHORIZATION_FAILED" if tp.topic == "u" else None for tp in positions}


class Holding:
    """A cluster whose group holds an offset of `t` alone."""

    def group(self, *asked: Any, **how: Any) -> Mapping[TopicPartition, Position]:
        return {T0: Position(offset=5, metadata=AUTHOR.text())}


class Gone:
    """A cluster that does not answer any more."""

    def group(self, *asked: Any, **how: Any) -> Mapping[TopicPartition, Position]:
        raise KafkaError("reading group g failed: Connection refused", code="_TRANSPORT")


def test_a_group_that_cannot_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold what was committed: the error says neither that it does, nor that it failed."""
    monkeypatch.setattr(group_repair, "SimpleGroups", Committed)
    repair = GroupRepair({"bootstrap.servers": "127.0.0.1:1"}, "g")
    repair.close()
    monkeypatch.setattr(repair, "_reader", Gone())
    change = GroupChange.plan("g", {}, {T0: 5}, AUTHOR, rewinds=False)
    with pytest.raises(KafkaError, match=r"not known whether group g holds .* read back") as raised:
        repair.commit(change)
    assert raised.value.code == "_TRANSPORT"
    assert "Connection refused" in str(raised.value)


def test_a_commit_that_kafka_takes_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which partitions have moved, which have not, and why; the exit status is not 0."""
    monkeypatch.setattr(group_repair, "SimpleGroups", Refused)
    repair = GroupRepair({"bootstrap.servers": "127.0.0.1:1"}, "g")
    repair.close()
    monkeypatch.setattr(repair, "_reader", Holding())
    change = GroupChange.plan("g", {}, {T0: 5, U0: 7}, AUTHOR, rewinds=False)
    outcome = repair.commit(change)
    assert outcome.missing == (U0,)
    with pytest.raises(KafkaError, match=r"Moved: t-0\. Not moved: u-0") as raised:
        outcome.require_all()
    assert raised.value.exit_code == 3
    assert raised.value.cause == "TOPIC_AUTHORIZATION_FAILED for u-0"


def test_a_commit_that_kafka_takes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is to be said."""
    monkeypatch.setattr(group_repair, "SimpleGroups", Committed)
    repair = GroupRepair({"bootstrap.servers": "127.0.0.1:1"}, "g")
    repair.close()
    monkeypatch.setattr(repair, "_reader", Holding())
    outcome = repair.commit(GroupChange.plan("g", {}, {T0: 5}, AUTHOR, rewinds=False))
    assert outcome.missing == ()
    outcome.require_all()
