"""T0 of the Kafka sink, by chance: long histories, from seeds that are named."""

from __future__ import annotations

import pytest

from tests.model_checking.conftest import Tell
from tests.model_checking.kafka_sink.simulation import simulate
from tests.model_checking.tally import require_unbroken

SEED = 20261122


def test_three_hundred_batches_break_no_rule(tell: Tell) -> None:
    """Crashes, zombies, lost executors and late requests by turns: every rule holds."""
    require_unbroken(simulate(SEED, 300), tell, crash=30, resume=10)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(4))
def test_a_hundred_thousand_batches_break_no_rule(part: int, tell: Tell) -> None:
    """The same for a quarter of a hundred thousand batches, four times."""
    require_unbroken(simulate(SEED + 1 + part, 25_000), tell, crash=2_500)
