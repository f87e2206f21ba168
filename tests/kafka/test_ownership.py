"""When a store must take a group for another's."""

from __future__ import annotations

from eo_listener.kafka.ownership import Ownership
from eo_listener.model.offsets import Position, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int, writer: str = "me") -> Position:
    return Position(offset=offset, metadata=writer)


def owned(*confirmed: int, found: str = "me") -> Ownership:
    """One that found offset 1 of A, and has confirmed these."""
    ours = Ownership()
    ours.found({A: at(1, found)})
    for offset in confirmed:
        ours.sending({A: at(offset)})
        ours.confirmed({A: at(offset)})
    return ours


def test_what_it_has_committed_or_found_is_its_own() -> None:
    """But not at the same offset what another writer has committed: the metadata tells."""
    assert owned(found="before").foreign({A: at(1, "before")}) is None
    ours = owned(5)
    assert ours.foreign({A: at(5)}) is None
    assert ours.foreign({A: at(5, "successor")}) == A


def test_all_that_was_found_or_sent_is_compared() -> None:
    """Whether it has landed or not; each partition once."""
    ours = owned(5)
    ours.sending({A: at(6), B: at(5)})
    assert ours.partitions == (A, B)
    ours.confirmed({A: at(6), B: at(5)})
    assert ours.partitions == (A, B)


def test_what_may_have_landed_is_its_own() -> None:
    """Every commit of unknown outcome may be there, also an older one of several."""
    ours = owned()
    ours.sending({A: at(5)})
    ours.sending({A: at(6)})
    assert [ours.foreign({A: at(offset)}) for offset in (1, 5, 6)] == [None, None, None]
    assert ours.foreign({A: at(7)}) == A


def test_what_was_aborted_or_overtaken_is_not() -> None:
    """What can never land, or what a later commit of its own replaced, would be another's."""
    ours = owned()
    ours.sending({A: at(5)})
    ours.aborted({A: at(5)})
    assert ours.foreign({A: at(5)}) == A
    ours.sending({A: at(6)})
    ours.confirmed({A: at(6)})
    assert ours.foreign({A: at(1)}) == A
    ours.sending({A: at(7)})
    ours.sending({A: at(8)})
    ours.confirmed({A: at(8)})
    assert ours.foreign({A: at(7)}) == A


def test_what_expired_or_was_never_seen_proves_nothing() -> None:
    """An offset that is gone, or of a partition it never read, is no sign of a successor."""
    ours = owned(5)
    assert ours.foreign({}) is None
    assert ours.foreign({B: at(9, "somebody")}) is None
