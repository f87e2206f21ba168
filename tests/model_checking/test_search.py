"""Every history within a scope, with the product's own event buffer, tracker and cluster state."""

from __future__ import annotations

import pytest

from tests.model_checking.conftest import Tell
from tests.model_checking.scope import Scope
from tests.model_checking.scopes import LARGE, SMALL
from tests.model_checking.search import PART, search, unbroken

FEW = 1_700  # states


@pytest.mark.parametrize("scope", SMALL.values(), ids=lambda scope: scope.name)
def test_no_history_that_is_soon_found_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """In the first states of all that can happen within a scope, no rule is broken."""
    outcome = unbroken(search(scope, states=FEW), tell)
    assert outcome.moves > 20


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("scope", SMALL.values(), ids=lambda scope: scope.name)
def test_no_history_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """In all that can happen within a scope, no rule is broken."""
    outcome = unbroken(search(scope), tell)
    assert outcome.complete


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("scope", LARGE.values(), ids=lambda scope: scope.name)
def test_no_longer_history_breaks_a_rule(scope: Scope, tell: Tell) -> None:
    """The same where more can go wrong, as far as twenty minutes of a processor reach."""
    unbroken(search(scope, seconds=1200.0 * PART), tell)
