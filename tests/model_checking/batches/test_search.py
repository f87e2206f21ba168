"""T0 of exactly_once, in small: every history within a scope, with the product's own steps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_checking.batches.rest import over, rest
from tests.model_checking.batches.scope import Scope
from tests.model_checking.batches.scopes import LARGE, SMALL
from tests.model_checking.batches.world import World
from tests.model_checking.conftest import Tell
from tests.model_checking.search import PART, Outcome, search, unbroken

FEW = 3_300  # states
LONG = 240.0  # seconds of a processor


def searched(scope: Scope, tell: Tell, **bound: Any) -> Outcome:
    return unbroken(search(scope, begin=World, over=over, rest=rest, **bound), tell)


@pytest.mark.parametrize("scope", SMALL.values(), ids=lambda scope: scope.name)
def test_no_history_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """In all that can happen within a scope, each record comes to be in each sink once."""
    outcome = searched(scope, tell, seconds=LONG)
    assert outcome.complete
    assert outcome.ends > 0


@pytest.mark.parametrize("scope", LARGE.values(), ids=lambda scope: scope.name)
def test_no_longer_history_that_is_soon_found_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """The same where more can go wrong, in the first states."""
    searched(scope, tell, states=FEW)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scope", LARGE.values(), ids=lambda scope: scope.name)
def test_no_longer_history_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """The same, as far as some minutes of a processor reach."""
    searched(scope, tell, seconds=LONG * PART)
