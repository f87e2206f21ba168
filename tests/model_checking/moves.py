"""How likely each step is, and worlds without end, for long histories by chance."""

from __future__ import annotations

from dataclasses import replace

from tests.model_checking.scope import Scope
from tests.model_checking.world import Step

# How likely each kind of step is, beside the others that can be taken; all else 10.
_WEIGHTS = {
    "crash": 1.0,
    "stop": 0.3,
    "resume": 1.0,
    "start": 20.0,
    "again": 20.0,
    "end": 0.3,
    "drop": 0.5,
    "twice": 0.5,
    "forget": 0.1,
    "land": 0.7,
    "tick": 4.0,
    "pause": 0.3,
    "recreate": 0.01,
    "delete": 0.01,
    "truncate": 0.02,
    "expire": 0.1,
    "members": 0.1,
    "reset": 0.1,
}
_PLENTY = 10**9


def endless(scope: Scope, *kinds: str) -> Scope:
    """The same world, in which these troubles never run out, nor the batches."""
    return replace(scope, faults=dict.fromkeys(kinds, _PLENTY), batches=_PLENTY, ticks=_PLENTY)


def weight(step: Step) -> float:
    name = step[0]
    if name == "answer":
        return 10.0 if step[2] in ("well", "gone") else 0.5
    if name == "plan" and len(step) > 3:
        return 0.02
    if name in ("start", "again") and step[-1] in ("rewind", "fresh", "latest"):
        return 0.5
    return _WEIGHTS.get(name, 10.0)
