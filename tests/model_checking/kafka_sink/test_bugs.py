"""T6 of the Kafka sink: bugs planted in its protocol are found, each within a small scope."""

from __future__ import annotations

import pytest

from tests.model_checking.batches.spark import P0
from tests.model_checking.bugs import Bug
from tests.model_checking.conftest import Tell
from tests.model_checking.kafka_sink.bugs import BUGS
from tests.model_checking.kafka_sink.rest import over, rest
from tests.model_checking.kafka_sink.scope import Scope
from tests.model_checking.kafka_sink.scopes import LARGE, SMALL
from tests.model_checking.kafka_sink.tape import ONE_TASK, SinkHow
from tests.model_checking.kafka_sink.world import World
from tests.model_checking.search import require_found, search


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug, tell: Tell) -> None:
    """A search that finds nothing in the protocol finds this change of one decision."""
    scope = (SMALL | LARGE)[bug.scope]
    require_found(bug, scope, tell, seconds=60.0, begin=World, over=over, rest=rest)


def test_no_comparison_finds_every_abort(tell: Tell) -> None:
    """A task that aborts, and a partition that is added again late: no task may ever abort."""
    one = SinkHow(layout=ONE_TASK)
    scope = Scope("polite", {"polite": 1, "twice": 1}, 1, sink=one, steps=({P0: 1},))
    outcome = search(scope, seconds=60.0, begin=World, over=over, rest=rest)
    tell(str(outcome))
    assert outcome.broken is not None
    assert "has [], not [0]" in outcome.broken
