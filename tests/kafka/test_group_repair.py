"""What a repair of a group says of an outcome that is not known; no broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eo_listener.commit.groups.group_change import GroupChange
from eo_listener.kafka import group_repair
from eo_listener.kafka.group_repair import GroupRepair
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import TopicPartition

AUTHOR = CommitMetadata(name="", query_id="", run_id="12345678", batch_id=-1, command="group seed")


class Gone:
    """A cluster that takes a commit, and then does not answer any more."""

    def commit(self, group: str, positions: Mapping[TopicPartition, Any], **_: Any) -> Any:
        return dict.fromkeys(positions)

    def group(self, *_: Any, **__: Any) -> Any:
        raise KafkaError("reading group g failed: Connection refused", code="_TRANSPORT")

    def close(self) -> None:
        pass


def test_a_group_that_cannot_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold what was committed: the error says neither that it does, nor that it failed."""
    monkeypatch.setattr(group_repair, "SimpleGroups", lambda _: Gone())
    repair = GroupRepair({"bootstrap.servers": "127.0.0.1:1"}, "g")
    repair.close()
    monkeypatch.setattr(repair, "_reader", Gone())
    change = GroupChange.plan("g", {}, {TopicPartition("t", 0): 5}, AUTHOR, rewinds=False)
    with pytest.raises(KafkaError, match=r"not known whether group g holds .* read back") as raised:
        repair.commit(change)
    assert raised.value.code == "_TRANSPORT"
    assert "Connection refused" in str(raised.value)
