"""The judge of the campaign finds each kind of fault: one that cannot fail proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eo_listener.offsets import OffsetRange, TopicPartition
from tests.attack.exactly_once import judge
from tests.attack.exactly_once.store import Holding, Written

TP = TopicPartition("t", 0)


def written(start: int, until: int, batch: int, rows: int | None = None) -> Written:
    count = until - start if rows is None else rows
    return Written(TP, OffsetRange(start, until), batch, "r", count, "next")


SOUND = Holding(
    rows=tuple(("t", 0, offset) for offset in range(5)),
    heads={TP: 5},
    history=(written(0, 2, 0), written(2, 5, 1)),
)


def test_a_sound_store_passes() -> None:
    """A store with nothing wrong raises no finding, and neither does an empty one."""
    assert judge.at_rest(SOUND) == []
    assert judge.at_rest(Holding(rows=(), heads={}, history=())) == []
    ends = {TP: 5}
    assert judge.at_the_end(SOUND, ends, ends, ends) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {  # what is changed, and a part of what is said
    "a row twice": ({"rows": (*SOUND.rows, ("t", 0, 3))}, "written 2 times"),
    "rows lost": ({"rows": SOUND.rows[:3]}, "not written"),
    "a row too many": ({"rows": (*SOUND.rows, ("t", 0, 5))}, "ahead of the ledger"),
    "ledger behind": ({"heads": {TP: 4}}, "ahead of the ledger"),
    "ledger empty": ({"heads": {}}, "the history ends at"),
    "history cut": ({"history": (written(0, 2, 0),)}, "the history ends at"),
    "gap": ({"history": (written(0, 2, 0), written(3, 5, 1))}, "3..5 of batch 1"),
    "overlap": ({"history": (written(0, 3, 0), written(2, 5, 1))}, "2..5 of batch 1"),
    "one batch twice": ({"history": (written(0, 2, 1), written(2, 5, 1))}, "2..5 of batch 1"),
    "wrong count": ({"history": (written(0, 2, 0), written(2, 5, 1, 9))}, "the history counts 11"),
}


@pytest.mark.parametrize(("changes", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_found(changes: dict[str, Any], said: str) -> None:
    """Each kind of fault in the store is found, and named."""
    assert [wrong for wrong in judge.at_rest(replace(SOUND, **changes)) if said in wrong]


@pytest.mark.parametrize("who", ["ledger", "checkpoint", "group"])
def test_who_disagrees_in_the_end_is_named(who: str) -> None:
    """Ledger, checkpoint and group must all stand where the log ends."""
    told = {name: {TP: 5} for name in ("ledger", "checkpoint", "group")} | {who: {TP: 4}}
    holding = replace(SOUND, heads=told["ledger"])
    (wrong,) = judge.at_the_end(holding, {TP: 5}, told["checkpoint"], told["group"])
    assert wrong.startswith(who)


def test_branches_that_are_left_are_named() -> None:
    """The branch of the last batch stays, and no other one."""
    ends = {TP: 5}
    for counts, said in {
        (1,): [],
        (1, 1): [],
        (2,): ["2 branches are left"],
        (1, 0): ["0 branches are left"],
    }.items():
        assert judge.at_the_end(replace(SOUND, branches=counts), ends, ends, ends) == said


REJECTING = Holding(
    rows=tuple(("t", 0, offset) for offset in range(40) if offset % 10 != 9),
    heads={TP: 40},
    history=None,
    letters=tuple(("t", 0, offset) for offset in (9, 19, 29, 39)),
    last={TP: 20},
)


def test_letters_of_the_last_batch_may_come_until_the_end() -> None:
    """All of them or none, and those of no other batch."""
    ends = {TP: 40}
    assert judge.at_rest(REJECTING) == []
    assert judge.at_the_end(REJECTING, ends, ends, ends) == []
    assert REJECTING.letters is not None
    waiting = replace(REJECTING, letters=REJECTING.letters[:2])
    assert judge.at_rest(waiting) == []
    assert judge.at_the_end(waiting, ends, ends, ends) == [
        "no dead letter: ('t', 0, 29)",
        "no dead letter: ('t', 0, 39)",
    ]


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        ((9, 19, 29), "no dead letter: ('t', 0, 39)"),
        ((9,), "no dead letter: ('t', 0, 19)"),
        ((9, 19, 19, 29, 39), "2 times a dead letter: ('t', 0, 19)"),
        ((9, 19, 29, 39, 49), "a dead letter too many: ('t', 0, 49)"),
        ((8, 9, 19, 29, 39), "a dead letter too many: ('t', 0, 8)"),
    ],
)
def test_what_is_wrong_with_letters_is_found(letters: tuple[int, ...], said: str) -> None:
    """One lacks of the last batch, or of an earlier one; one is there twice, early, or is a row."""
    spoilt = replace(REJECTING, letters=tuple(("t", 0, offset) for offset in letters))
    assert judge.at_rest(spoilt) == [said]


def test_windows_are_whole_and_in_order() -> None:
    """A window that is missing, cut short or there twice is found."""
    windows = ((0, 30), (10, 30), (20, 30))
    sound = Holding(rows=windows, heads={}, history=())
    assert judge.windows_at_rest(sound, 3) == []
    for rows in (windows[1:], (*windows, (20, 30)), (*windows[:2], (20, 29))):
        assert judge.windows_at_rest(replace(sound, rows=rows), 3) != []
    assert judge.all_windows(sound, {TP: 51}) == []
    assert judge.all_windows(sound, {TP: 61}) != []
