"""T6: bugs planted in the product are found by the model, each within a small scope."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from tests.model_checking.bugs import BUGS, Bug, planted
from tests.model_checking.conftest import Tell
from tests.model_checking.scopes import LARGE, SMALL
from tests.model_checking.search import search

LONG = {"doubt ends with the next commit", "what a look showed is forgotten"}


def _named(bug: Bug) -> str:
    return bug.name.replace(" ", "-")


def _when_long(bug: Bug) -> ParameterSet:
    marks = (pytest.mark.campaign,) if bug.name in LONG else ()
    return pytest.param(bug, marks=marks, id=_named(bug))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", [_when_long(bug) for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, tell: Tell) -> None:
    """A search that finds nothing in the product finds this change of one decision."""
    with planted(bug):
        outcome = search((SMALL | LARGE)[bug.scope])
    broken = outcome.broken or "not found"
    if " commits " in broken:
        broken = broken.rpartition(": ")[2]  # the rule, without the commit that breaks it
    spent = f"{outcome.moves:>7,} steps, {outcome.seconds:4.1f} s"
    tell(f"{bug.name:<34} {bug.scope:<8} {spent}: {broken}")
    assert outcome.broken is not None
