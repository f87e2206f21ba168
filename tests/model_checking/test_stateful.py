"""T0, in large: Hypothesis looks for a history that breaks a rule, and makes it short."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model_checking.moves import weight
from tests.model_checking.rest import rest
from tests.model_checking.simulation import KINDS
from tests.model_checking.world import Step, World

_SPARK = frozenset({"restore", "plan", "finish", "event", "drop"})
_LISTENER = frozenset({"serve", "send", "answer"})
_OPERATOR = frozenset({"crash", "stop", "resume", "start", "again", "end"})


class Histories(RuleBasedStateMachine):
    """Who acts is Hypothesis' choice, and what is done of all that can be done."""

    @initialize(scope=st.sampled_from(KINDS))
    def begin(self, scope: object) -> None:
        self.world = World(scope)  # type: ignore[arg-type]  # one of the scopes
        self.read()

    def read(self) -> None:
        self.steps = self.world.steps()

    def of(self, names: frozenset[str] | None) -> list[Step]:
        """What some can do; with None, what is nobody's of the others."""
        others = _SPARK | _LISTENER | _OPERATOR
        return [s for s in self.steps if (s[0] in names if names else s[0] not in others)]

    def go(self, data: st.DataObject, names: frozenset[str] | None) -> None:
        """Take one of these steps, the more likely ones first."""
        likely = sorted(self.of(names), key=lambda step: -weight(step))
        step = data.draw(st.sampled_from(likely))
        self.world.take(step)
        self.read()

    @precondition(lambda self: bool(self.of(_SPARK)))
    @rule(data=st.data())
    def spark(self, data: st.DataObject) -> None:
        self.go(data, _SPARK)

    @precondition(lambda self: bool(self.of(_LISTENER)))
    @rule(data=st.data())
    def listener(self, data: st.DataObject) -> None:
        """A tracker's thread or a worker continues, and Kafka answers."""
        self.go(data, _LISTENER)

    @precondition(lambda self: bool(self.of(_LISTENER)))
    @rule()
    def routine(self) -> None:
        """All that the listeners have to do is done, and goes well."""
        for _ in range(20):
            step = next((s for s in self.steps if _goes_well(s)), None)
            if step is None:
                return
            self.world.take(step)
            self.read()

    @precondition(lambda self: bool(self.of(_OPERATOR)))
    @rule(data=st.data())
    def operator(self, data: st.DataObject) -> None:
        self.go(data, _OPERATOR)

    @precondition(lambda self: bool(self.of(None)))
    @rule(data=st.data())
    def others(self, data: st.DataObject) -> None:
        """Time passes, a late request lands, an administrator acts."""
        self.go(data, None)

    def teardown(self) -> None:
        """At the end all comes to rest, and the group tells the truth."""
        if hasattr(self, "world"):
            rest(self.world)


def _goes_well(step: Step) -> bool:
    return step[0] in _LISTENER and (step[0] != "answer" or step[2] in ("well", "gone"))


_QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def run(examples: int, *, steps: int) -> None:
    """Try so many histories; one that breaks a rule is printed as a program."""
    Histories.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        print_blob=True,
        suppress_health_check=_QUIET,
        phases=(Phase.generate, Phase.shrink),
    )
    Histories.TestCase("runTest").runTest()


@pytest.mark.timeout(900)
def test_hypothesis_finds_no_history_that_breaks_a_rule() -> None:
    """Some histories, the same in every run."""
    run(30, steps=50)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_hypothesis_finds_none_in_fifty_thousand() -> None:
    """Fifty thousand, or what EO_TEST_EXAMPLES says."""
    run(int(os.environ.get("EO_TEST_EXAMPLES", "50000")), steps=50)
