"""The judge of what a reader was shown finds each kind of fault."""

from __future__ import annotations

import pytest

from tests.attack.kafka_sink.reader import Seen, wrong

ROWS = {0: 2, 1: 3}
SOUND: Seen = {0: ("0.0", "1.0", "1.2"), 1: ("0.1", "1.1")}


def test_what_is_right_passes() -> None:
    """Also where rows had no order, and where nothing was written."""
    assert wrong(SOUND, ROWS) == []
    assert wrong({0: ("0.1", "0.0", "1.2", "1.0", "1.1")}, ROWS, ordered=False) == []
    assert wrong({}, {}) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({**SOUND, 1: ("0.1", "1.1", "1.1")}, "shown 2 times: 1.1"),
        ({**SOUND, 1: ("0.1",)}, "not shown: 1.1"),
        ({**SOUND, 1: ("0.1", "1.1", "2.0")}, "never written: 2.0"),
        ({**SOUND, 0: ("0.0", "1.2", "1.0")}, "partition 0 is not in order"),
    ],
    ids=["doubled", "lost", "foreign", "disordered"],
)
def test_what_is_wrong_is_found(seen: Seen, said: str) -> None:
    """Each fault is named."""
    assert [one for one in wrong(seen, ROWS) if said in one]


def test_a_batch_before_the_one_before_it_is_found() -> None:
    """Whatever the order of its rows."""
    assert wrong({0: ("1.0", "0.0")}, {0: 1, 1: 1}, ordered=False) != []
