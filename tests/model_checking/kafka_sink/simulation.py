"""Long histories of the Kafka sink by chance, each from a seed that is named."""

from __future__ import annotations

from functools import partial

from tests.model_checking import tally
from tests.model_checking.kafka_sink.rest import rest
from tests.model_checking.kafka_sink.scope import Scope
from tests.model_checking.kafka_sink.tape import ONE_TASK, SinkHow
from tests.model_checking.kafka_sink.world import Step, World

_MANY = 10**6
_LENGTH = 250  # steps of a history
_PROCESS = ("crash", "zombie", "produce")
_REQUESTS = ("lost", "unanswered", "late", "torn", "away")
_TASKS = ("executor", "speculation", "stage", "orphan")
_BROKERS = ("timeout", "expire", "foreign", "blocked")
_DRIVER = SinkHow(method="driver")


def _endless(
    name: str, *troubles: str, sink: SinkHow | None = None, verifies: bool = True, longest: int = 5
) -> Scope:
    left = dict.fromkeys(troubles, _MANY)
    sink = sink or SinkHow()
    return Scope(
        name, left, _MANY, starts=_MANY, sink=sink, verifies=verifies, longest=longest, fine=True
    )


# One of these by turns.
KINDS = (
    _endless("tasks", *_PROCESS, *_REQUESTS, *_TASKS),
    _endless("one task", *_PROCESS, *_REQUESTS, *_BROKERS, sink=SinkHow(layout=ONE_TASK)),
    _endless("driver", *_PROCESS, *_REQUESTS, *_BROKERS, sink=_DRIVER),
    _endless("unverified", *_PROCESS, *_REQUESTS, *_TASKS, "timeout", verifies=False),
    _endless("driver, unverified", *_PROCESS, *_REQUESTS, sink=_DRIVER, verifies=False),
    _endless("overlaps", *_PROCESS, *_REQUESTS, *_TASKS, "overlap"),
    _endless("all", *_PROCESS, *_REQUESTS, *_TASKS, *_BROKERS, longest=1000),
)
# How likely each kind of step is, beside the others that can be taken; all else 10.
_WEIGHTS = {
    "crash": 0.3,
    "stop": 0.2,
    "resume": 1.0,
    "lose": 0.3,
    "deliver": 2.0,
    "produce": 1.0,
    "timeout": 0.2,
    "expire": 0.2,
    "foreign": 1.0,
}


def _weight(step: Step) -> float:
    if step[-1] in (*_REQUESTS, "overlap", "blocked"):
        return 0.3
    return _WEIGHTS.get(step[0], 10.0)


simulate = partial(tally.simulate, KINDS, World, length=_LENGTH, weight=_weight, rest=rest)
