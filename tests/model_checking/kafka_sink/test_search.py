"""T0 of the Kafka sink, in small: every history within a scope, with the product's own steps."""

from __future__ import annotations

import pytest

from tests.model_checking.conftest import Tell
from tests.model_checking.kafka_sink.rest import over, rest
from tests.model_checking.kafka_sink.scope import Scope
from tests.model_checking.kafka_sink.scopes import LARGE, SMALL
from tests.model_checking.kafka_sink.world import World
from tests.model_checking.search import PART, Outcome, search, unbroken

SHORT = 0.5  # seconds of a processor
LONG = 240.0


def searched(scope: Scope, seconds: float, tell: Tell) -> Outcome:
    return unbroken(search(scope, seconds=seconds, begin=World, over=over, rest=rest), tell)


@pytest.mark.parametrize("scope", SMALL.values(), ids=lambda scope: scope.name)
def test_no_history_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """In all that can happen within a scope, readers see each record once, in whole batches."""
    outcome = searched(scope, LONG, tell)
    assert outcome.complete
    assert outcome.ends > 0


@pytest.mark.parametrize("scope", LARGE.values(), ids=lambda scope: scope.name)
def test_no_longer_history_that_is_soon_found_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """The same where more can go wrong, as far as a moment reaches."""
    searched(scope, SHORT, tell)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scope", LARGE.values(), ids=lambda scope: scope.name)
def test_no_longer_history_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """The same, as far as some minutes of a processor reach."""
    searched(scope, LONG * PART, tell)
