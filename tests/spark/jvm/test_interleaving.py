"""A query that goes on between any two questions, asked without the shim.

Every way in which the steps of Spark's own code can fall between the questions is tried; the
Java test of the same name does so for the shim. A batch's end offset is its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from eo_listener.offsets import TopicPartition
from eo_listener.spark.jvm.running_query import RunningQuery, by_reflection

NONE = -1  # no offsets
GETTING = "Getting offsets from a source"


@dataclass(frozen=True)
class State:
    """What Spark's variables hold at one moment."""

    context: int = 0
    batch: int = -1
    start: int = NONE
    committed: int = NONE
    message: str = "Initializing sources"


def story(*changes: dict[str, Any]) -> list[State]:
    """The states that follow from one change after the other."""
    states = [State()]
    for change in changes:
        states.append(replace(states[-1], **change))
    return states


def spark_3(latest: int, *, done: bool) -> list[State]:
    """Restart and two batches of Spark 3.5; the latest batch in the offset log is done or not."""
    after = latest + 1 if done else latest
    return story(
        {"batch": latest},
        {"committed": latest - 1},
        *([{"batch": after}, {"committed": latest}] if done else []),
        {"message": GETTING},
        {"committed": after},
        {"batch": after + 1},
        {"committed": after + 1},
    )


def spark_4(latest: int, *, done: bool) -> list[State]:
    """The same of Spark 4, where each batch has a context of its own."""
    after = latest + 1 if done else latest
    begins = "Initializing StreamExecution"
    return story(
        {"context": 1, "batch": -1, "message": begins},
        {"batch": latest},
        {"start": latest - 1},
        *([{"batch": after}, {"start": latest}] if done else []),
        {"committed": after - 1},
        {"message": GETTING},
        {"committed": after},
        {"context": 2, "batch": after + 1, "start": after, "message": begins},
        {"committed": after + 1},
    )


class Fake:
    """An object of Java: a method that it has not is py4j's error."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def missing(*_: object) -> Any:
            raise Py4JError(f"no {name}")

        return missing


class Named(Fake):
    """An object of Java whose class has this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getClass(self) -> Any:  # noqa: N802 - Java's
        full = f"org.apache.spark.sql.kafka010.{self._name}"
        return SimpleNamespace(getSimpleName=lambda: self._name, getName=lambda: full)


class Offset(Fake):
    """A Scala Option and the offset in it."""

    def __init__(self, batch: int) -> None:
        self._batch = batch

    def isDefined(self) -> bool:  # noqa: N802 - Scala's
        return self._batch != NONE

    def get(self) -> Offset:
        return self

    def json(self) -> str:
        return f'{{"t":{{"0":{self._batch}}}}}'


class Progress(Fake):
    def __init__(self, batch: int) -> None:
        self.batch = batch

    def isEmpty(self) -> bool:  # noqa: N802 - Scala's
        return self.batch == NONE

    def get(self, stream: object) -> Offset:
        return Offset(self.batch)

    def equals(self, other: Progress) -> bool:
        return self.batch == other.batch


class ScriptedQuery(Named):
    """A query whose state moves on before each answer, as far as the plan says."""

    def __init__(self, states: list[State], plan: list[int]) -> None:
        super().__init__("MicroBatchExecution")
        self._states, self._plan, self._asked, self.at = states, plan, 0, 0
        self._stream = Named("KafkaMicroBatchStream")

    def go_on(self) -> State:
        if self._asked == len(self._plan):
            self._plan.append(0)
        self.at += self._plan[self._asked]
        self._asked += 1
        return self._states[self.at]

    def of_context(self, number: int) -> State:
        """As seen in a context that may no longer be the latest."""
        self.go_on()
        return [state for state in self._states[: self.at + 1] if state.context == number][-1]

    def sources(self) -> Any:
        sequence = SimpleNamespace(size=lambda: 1, apply=lambda _: self._stream)
        sequence.distinct = lambda: sequence
        return sequence

    def committedOffsets(self) -> Progress:  # noqa: N802 - Spark's
        return Progress(self.go_on().committed)

    def status(self) -> Any:
        message = self.go_on().message
        return SimpleNamespace(message=lambda: message)


class Spark3(ScriptedQuery):
    def currentBatchId(self) -> int:  # noqa: N802 - Spark's
        return self.go_on().batch


class Spark4(ScriptedQuery):
    def getLatestExecutionContext(self) -> Context:  # noqa: N802 - Spark's
        return Context(self, self.go_on().context)


class Context(Fake):
    def __init__(self, group_events: ScriptedQuery, number: int) -> None:
        self._teller, self._number = group_events, number

    def batchId(self) -> int:  # noqa: N802 - Spark's
        return self._teller.of_context(self._number).batch

    def startOffsets(self) -> Progress:  # noqa: N802 - Spark's
        return Progress(self._teller.of_context(self._number).start)


def plans(steps: int) -> Iterator[list[int]]:
    """Every plan whose steps do not leave the story; the teller makes each one long enough."""
    plan: list[int] = []
    while True:
        yield plan
        while plan and sum(plan) >= steps:
            plan.pop()
        if not plan:
            return
        plan[-1] += 1


@pytest.mark.parametrize("group_events", [Spark3, Spark4])
@pytest.mark.parametrize(("latest", "done"), [(6, True), (6, False), (0, True)])
def test_never_ahead_and_never_behind(
    group_events: type[Spark3 | Spark4], latest: int, done: bool
) -> None:
    """Whatever happens between two questions, the batch is behind the offsets, and durable."""
    states = (spark_3 if group_events is Spark3 else spark_4)(latest, done=done)
    durable = latest if done else latest - 1
    batches: set[int | None] = set()
    for plan in plans(len(states) - 1):
        told = group_events(states, plan)
        position = by_reflection(
            RunningQuery(query_id="q", run_id="r", name=None, execution=told, jvm=None)
        )
        batches.add(None if position is None else position.batch_id)
        if position is not None:
            offset = position.committed[0][TopicPartition("t", 0)]
            assert durable <= position.batch_id <= offset <= states[told.at].committed, plan
    newest = durable + (1 if group_events is Spark3 else 2)
    assert batches == {None, *range(durable, newest + 1)}
