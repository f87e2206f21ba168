"""T0, by chance: long histories, from seeds that are named when a rule is broken."""

from __future__ import annotations

import pytest

from tests.model_checking.conftest import Tell
from tests.model_checking.simulation import simulate
from tests.model_checking.tally import require_unbroken

SEED = 20261121


@pytest.mark.timeout(900)
def test_five_thousand_batches_break_no_rule(tell: Tell) -> None:
    """Crashes, zombies, faults and administrators by turns: every rule holds."""
    require_unbroken(simulate(SEED, 5_000), tell, crash=1_000)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(4))
def test_a_million_batches_break_no_rule(part: int, tell: Tell) -> None:
    """The same for a quarter of a million batches, four times."""
    require_unbroken(simulate(SEED + 1 + part, 250_000), tell, crash=50_000)
