"""What a repair commits to a group, and what it refuses."""

from __future__ import annotations

import pytest

from eo_listener.commit.groups.group_change import Direction, GroupChange, GroupOutcome
from eo_listener.commit.groups.group_state import Positions
from eo_listener.errors import SettingsError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from tests.commit.positions import by, metadata_of

T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))
AUTHOR = CommitMetadata(name="", query_id="", run_id="12345678", batch_id=-1, command="group seed")
HELD = {T0: Position(offset=5, metadata="x"), T1: Position(offset=5), T2: Position(offset=9)}


def planned(wanted: dict[TopicPartition, int], *, rewinds: bool = False) -> GroupChange:
    return GroupChange.plan("g", HELD, wanted, AUTHOR, rewinds=rewinds)


def test_a_seed_commits_what_is_new_or_further() -> None:
    """What the group holds already is not committed once more, and says who has committed it."""
    change = planned({T0: 7, T1: 5, T3: 0})
    directions = {one.partition: one.direction for one in change.partitions}
    assert directions == {T0: Direction.FORWARD, T1: Direction.SAME, T3: Direction.NEW}
    committed = change.positions()
    assert {tp: at.offset for tp, at in committed.items()} == {T0: 7, T3: 0}
    assert {CommitMetadata.parse(at.metadata) for at in committed.values()} == {AUTHOR}


def test_a_seed_never_goes_back() -> None:
    """Nothing is planned where one partition would, and the command that does is named."""
    with pytest.raises(SettingsError, match=r"t-2 from 9 to 8.*group rewind` .*--from-file"):
        planned({T0: 7, T2: 8})


def test_a_rewind_commits_what_goes_back_alone() -> None:
    """With what the group held; partitions that are behind, equal or without offsets are left."""
    change = planned({T0: 7, T1: 5, T2: 3, T3: 4}, rewinds=True)
    ((tp, position),) = change.positions().items()
    assert (tp, position.offset) == (T2, 3)
    assert metadata_of(position).rewound_from == 9


def test_a_rewind_of_a_group_without_offsets_is_refused() -> None:
    """It is more likely misspelled than at its place already."""
    with pytest.raises(SettingsError, match="group g holds no offsets of t-3"):
        planned({T3: 4}, rewinds=True)


def test_a_group_that_moves_is_recognised() -> None:
    """By an offset, its metadata, or an offset that has come or gone, of any partition."""
    change = planned({T0: 7, T3: 1})
    assert change.moved_since(HELD) == ()
    assert change.moved_since({**HELD, T0: Position(offset=5, metadata="y")}) == (T0,)
    assert change.moved_since({**HELD, T3: Position(offset=1)}) == (T3,)
    assert change.moved_since({}) == (T0, T1, T2)
    assert change.moved_since({**HELD, T1: Position(offset=6)}) == (T1,), "a query is at work"


def test_what_the_group_holds_afterwards_counts() -> None:
    """An offset with the metadata of another commit is not this repair's."""
    change = planned({T0: 7, T1: 5})

    def missing(positions: Positions) -> tuple[TopicPartition, ...]:
        return GroupOutcome(change=change, group_positions=positions, errors={}).missing

    assert missing({**HELD, **change.positions()}) == ()
    assert missing({**HELD, T0: Position(offset=7)}) == (T0,)
    assert missing({}) == (T0,)


def test_a_mark_of_the_guard_is_named() -> None:
    """It goes with the commit; where nothing is committed it stays."""
    held = dict.fromkeys((T0, T1), by(5, withheld=True))
    change = GroupChange.plan("g", held, {T0: 6, T1: 5}, AUTHOR, rewinds=False)
    assert change.marked() == (T0,)


def test_many_partitions_go_in_parts() -> None:
    """10,000 partitions are committed in requests that a coordinator takes, each once."""
    wanted = {TopicPartition("t", number): number for number in range(10_000)}
    change = GroupChange.plan("g", {}, wanted, AUTHOR, rewinds=False)
    parts = list(change.parts())
    assert max(map(len, parts)) <= 1000
    assert sum(map(len, parts)) == 10_000
    assert {tp for part in parts for tp in part} == set(wanted)
    assert list(planned({}).parts()) == []
