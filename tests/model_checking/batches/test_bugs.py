"""T6 of exactly_once: bugs planted in the product are found, each within a small scope."""

from __future__ import annotations

import pytest

from tests.model_checking.batches.bugs import BUGS
from tests.model_checking.batches.rest import over, rest
from tests.model_checking.batches.scopes import SMALL
from tests.model_checking.batches.world import World
from tests.model_checking.bugs import Bug
from tests.model_checking.conftest import Tell
from tests.model_checking.search import require_found


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug, tell: Tell) -> None:
    """A search that finds nothing in the product finds this change of one decision."""
    require_found(bug, SMALL[bug.scope], tell, begin=World, over=over, rest=rest)
