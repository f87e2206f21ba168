"""When a group is another's, and what a repair says of an outcome that is not known. No broker."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from eo_listener.commit.groups.group_change import GroupChange
from eo_listener.errors import KafkaError
from eo_listener.kafka import group_repair
from eo_listener.kafka.group_repair import GroupRepair
from eo_listener.kafka.simple_groups import Ownership
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int, writer: str = "me") -> Position:
    return Position(offset=offset, metadata=writer)


def owned(*steps: str) -> Ownership:
    """One that found offset 1 of A, and then has sent, confirmed or aborted others of A."""
    ours = Ownership()
    ours.record_read({A: at(1)})
    for step in steps:
        what, offset = step.split()
        getattr(ours, f"record_{what}")({A: at(int(offset))})
    return ours


@pytest.mark.parametrize(
    ("steps", "own", "foreign"),
    [
        ((), [1], [5]),
        (("sent 5", "confirmed 5"), [5], [1]),
        (("sent 5", "sent 6"), [1, 5, 6], [7]),  # what may have landed, also the older one
        (("sent 5", "aborted 5"), [1], [5]),  # what can never land
        (("sent 7", "sent 8", "confirmed 8"), [8], [1, 7]),  # what its own commit has replaced
    ],
)
def test_what_it_has_found_or_may_have_committed_is_its_own(
    steps: tuple[str, ...], own: list[int], foreign: list[int]
) -> None:
    """But not at the same offset what another writer has committed: the metadata tells."""
    ours = owned(*steps)
    assert {ours.foreign({A: at(offset)}) for offset in own} == {None}
    assert {ours.foreign({A: at(offset)}) for offset in foreign} == {A}
    assert ours.foreign({A: at(own[-1], "successor")}) == A


def test_all_that_was_found_or_sent_is_compared() -> None:
    """Whether it has landed or not; each partition once."""
    ours = owned("sent 5", "confirmed 5")
    ours.record_sent({A: at(6), B: at(5)})
    assert ours.partitions == (A, B)
    ours.record_confirmed({A: at(6), B: at(5)})
    assert ours.partitions == (A, B)


def test_what_expired_or_was_never_seen_proves_nothing() -> None:
    """An offset that is gone, or of a partition it never read, is no sign of a successor."""
    ours = owned("sent 5", "confirmed 5")
    assert ours.foreign({}) is None
    assert ours.foreign({B: at(9, "somebody")}) is None


AUTHOR = CommitMetadata(name="", query_id="", run_id="12345678", batch_id=-1, command="group seed")


def test_a_group_that_cannot_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold what was committed: the error says neither that it does, nor that it failed."""
    gone = Mock()  # a cluster that takes a commit, and then does not answer any more
    gone.commit.return_value = {A: None}
    error = KafkaError("reading group g failed: Connection refused", code="_TRANSPORT")
    gone.group.side_effect = error
    monkeypatch.setattr(group_repair, "SimpleGroups", lambda _: gone)
    repair = GroupRepair({"bootstrap.servers": "127.0.0.1:1"}, "g")
    repair.close()
    monkeypatch.setattr(repair, "_reader", gone)
    change = GroupChange.plan("g", {}, {A: 5}, AUTHOR, rewinds=False)
    with pytest.raises(KafkaError, match=r"group g .*read back") as raised:
        repair.commit(change)
    assert raised.value.code == "_TRANSPORT"
    assert "Connection refused" in str(raised.value)
