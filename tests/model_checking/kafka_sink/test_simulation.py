"""T0 of the Kafka sink, by chance: long histories, from seeds that are named."""

from __future__ import annotations

import pytest

from tests.model_checking.conftest import Tell
from tests.model_checking.kafka_sink.simulation import simulate

SEED = 20261122


def test_three_hundred_batches_break_no_rule(tell: Tell) -> None:
    """Crashes, zombies, lost executors and late requests by turns: every rule holds."""
    tally = simulate(SEED, 300)
    tell(f"simulation of the Kafka sink: {tally}")
    assert tally.broken is None, str(tally)
    assert tally.steps["crash"] > 30
    assert tally.steps["resume"] > 10


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(4))
def test_a_hundred_thousand_batches_break_no_rule(part: int, tell: Tell) -> None:
    """The same for a quarter of a hundred thousand batches, four times."""
    tally = simulate(SEED + 1 + part, 25_000)
    tell(f"simulation of the Kafka sink: {tally}")
    assert tally.broken is None, str(tally)
    assert tally.steps["crash"] > 2_500
