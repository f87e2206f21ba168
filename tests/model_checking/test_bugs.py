"""T6: bugs planted in the product are found by the model, each within a small scope."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from tests.model_checking.bugs import BUGS, Bug
from tests.model_checking.conftest import Tell
from tests.model_checking.scopes import LARGE, SMALL
from tests.model_checking.search import require_found

LONG = {"doubt ends with the next commit", "what a look showed is forgotten"}


def _when_long(bug: Bug) -> ParameterSet:
    marks = (pytest.mark.campaign,) if bug.name in LONG else ()
    return pytest.param(bug, marks=marks, id=bug.name.replace(" ", "-"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", [_when_long(bug) for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, tell: Tell) -> None:
    """A search that finds nothing in the product finds this change of one decision."""
    require_found(bug, (SMALL | LARGE)[bug.scope], tell)
