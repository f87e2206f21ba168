"""How long a failed commit waits: what the documents promise."""

from __future__ import annotations

import pytest

from eo_listener.commit.groups.policy import Backoff, Policy


@pytest.mark.parametrize(
    ("failures", "refused", "wait"),
    [
        (1, False, 0.1),
        (2, False, 0.2),
        (8, False, 12.8),
        (9, False, 15.0),
        (10**6, False, 15.0),
        (1, True, 1.0),
        (6, True, 32.0),
        (7, True, 60.0),
        (10**6, True, 60.0),
    ],
)
def test_each_wait_is_twice_the_one_before(failures: int, refused: bool, wait: float) -> None:
    """After a fault up to 15 s; after a refusal from a second up to a minute; spread over half."""
    assert Backoff().wait(failures, refused=refused, spread=1.0) == pytest.approx(wait)
    assert Backoff().wait(failures, refused=refused, spread=0.0) == pytest.approx(wait / 2)


def test_a_minute_for_what_is_in_doubt_and_for_a_snapshot() -> None:
    """A commit in doubt is repeated, and the group read again, after a minute, as documented."""
    assert Backoff().repeat_after == 60.0
    assert Policy().snapshot_max_age == 60.0
    assert not Policy().accept_marks
