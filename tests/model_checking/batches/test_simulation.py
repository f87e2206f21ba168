"""T0 of exactly_once, by chance: long histories, from seeds that are named."""

from __future__ import annotations

import pytest

from tests.model_checking.batches.simulation import simulate
from tests.model_checking.conftest import Tell
from tests.model_checking.tally import require_unbroken

SEED = 20261121


def test_four_thousand_batches_break_no_rule(tell: Tell) -> None:
    """Crashes, zombies, lost answers and changed checkpoints by turns: every rule holds."""
    require_unbroken(simulate(SEED, 4_000), tell, crash=500, resume=200)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(4))
def test_a_million_batches_break_no_rule(part: int, tell: Tell) -> None:
    """The same for a quarter of a million batches, four times."""
    require_unbroken(simulate(SEED + 1 + part, 250_000), tell, crash=50_000)
