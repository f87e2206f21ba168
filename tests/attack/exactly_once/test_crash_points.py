"""A driver felled at each of its crash points: nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.attack.exactly_once.lives import POINTS, Lives
from tests.attack.exactly_once.settings import SETTINGS, begin

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SEED = int(os.environ.get("EO_ATTACK_SEED", "0")) or random.randrange(1, 10**6)
FEW = ("task.row", "sink.rows-written", "sink.ledger-moved", "sink.commit-sent", "batch.applied")
MOST = 5  # the last occurrence that a random choice may hit


@pytest.fixture(
    scope="module",
    params=[
        name if name == "sqlite" else pytest.param(name, marks=pytest.mark.campaign)
        for name in SETTINGS
    ],
)
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """One query for all points of a setting: each life goes on where the last one was felled."""
    return begin(request.param, request, tmp_path_factory.mktemp("lives"))


def fell(lives: Lives, point: str, nth: int) -> None:
    if not lives.reaches(point):
        pytest.skip("this store, or this setting, has no such step")
    for _ in range(nth):
        lives.fill(lives.job.batch // 3)
    lives.fell(point, nth)
    if point == "batch.applied":
        lives.leave_temporary()


def _marked(point: str, plan: str) -> Any:
    if plan.startswith("between"):
        return pytest.param(point, marks=pytest.mark.campaign)
    return point if point in FEW else pytest.param(point, marks=pytest.mark.slow)


@pytest.mark.parametrize("point", [_marked(point, plan) for point, plan in POINTS.items()])
def test_felled_there(lives: Lives, point: str) -> None:
    """SIGKILL to the driver, JVM and all: the table holds the records below the ledger, once."""
    fell(lives, point, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("point", POINTS)
def test_felled_there_in_a_later_batch(lives: Lives, point: str) -> None:
    """The same at the second batch of a life."""
    fell(lives, point, 2)


@pytest.mark.campaign
@pytest.mark.parametrize("point", POINTS)
def test_felled_there_at_random(lives: Lives, point: str) -> None:
    """The same at a batch that chance has chosen; EO_ATTACK_SEED repeats it."""
    nth = random.Random(f"{SEED} {lives.job.store} {point}").randint(1, MOST)
    print(f"EO_ATTACK_SEED={SEED}: {point}, time {nth}")  # noqa: T201  # shown when it fails
    fell(lives, point, nth)


def test_in_the_end_all_is_there_once(lives: Lives) -> None:
    """After all these deaths: each record once, and ledger, checkpoint, group and log agree."""
    lives.fill(40)
    lives.finish()
