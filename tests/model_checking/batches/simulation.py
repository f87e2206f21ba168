"""Long histories of batches by chance, each from a seed that is named when a rule is broken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.model_checking import tally
from tests.model_checking.batches.counted_scopes import Beside, Files
from tests.model_checking.batches.rest import rest
from tests.model_checking.batches.scope import Scope
from tests.model_checking.batches.tape import How
from tests.model_checking.batches.world import Step, World

_MANY = 10**6
_LENGTH = 250  # steps of a history
_STORE = ("away", "again", "lost", "unanswered", "late")
_PROCESS = ("crash", "zombie", "produce")
_ADOPT = How(on_first="accept")
_RESTART = How(on_recreated="restart")
_FILES = ("rewind", "forgotten", "ledger", "careless")
_MEDDLING = ("stranger", "restore", "aside")


def _endless(
    name: str,
    *troubles: str,
    stateful: bool = False,
    how: How | None = None,
    of: Callable[..., Scope] = Scope,
) -> Scope:
    left = dict.fromkeys(troubles, _MANY)
    return of(name, left, _MANY, stateful=stateful, how=how or How(), starts=_MANY)


# One of these by turns.
KINDS = (
    _endless("one driver", "crash", "produce", *_STORE),
    _endless("zombies", *_PROCESS, *_STORE),
    _endless("zombies of SQLite", *_PROCESS, *_STORE, how=How(exclusive=True)),
    _endless("two sinks", *_PROCESS, *_STORE, how=How(keys=("a", "b"))),
    _endless("alone", *_PROCESS, *_STORE, how=How(per_partition=True)),
    _endless("stateful", *_PROCESS, *_STORE, stateful=True),
    _endless("checkpoints", *_PROCESS, *_STORE, *_FILES),
    _endless("backups", *_PROCESS, *_STORE, "ledger", "restore"),
    _endless("overlaps", *_PROCESS, *_STORE, "overlap"),
    _endless("names", *_PROCESS, *_STORE, "overlap", "rename", "empty", how=_ADOPT),
    _endless("lost records", *_PROCESS, *_FILES, "retention", how=How(on_gap="accept")),
    _endless("recreated", *_PROCESS, *_STORE, "ledger", "recreate"),
    _endless("recreated", *_PROCESS, *_STORE, "earliest", "recreate", "shrink", how=_RESTART),
    _endless("files", *_PROCESS, *_STORE, "overlap", of=Files),
    _endless("checkpoints of files", *_PROCESS, *_STORE, *_FILES, *_MEDDLING, of=Files),
    _endless("beside Kafka", *_PROCESS, *_STORE, *_FILES, *_MEDDLING, of=Beside),
)
# How likely each kind of step is, beside the others that can be taken; all else 10.
_WEIGHTS = {
    "crash": 0.5,
    "stop": 0.3,
    "resume": 1.0,
    "start": 10.0,
    "land": 3.0,
    "fade": 3.0,
    "produce": 2.0,
    "retention": 0.2,
    "recreate": 0.02,
    "shrink": 0.02,
    "restore": 0.2,
    "empty": 0.05,
    "aside": 0.05,
}


def _weight(step: Step) -> float:
    if step[-1] in _STORE or step[-1] in _FILES or step[-1] in ("overlap", "rename", "stranger"):
        return 0.5
    return _WEIGHTS.get(step[0], 10.0)


simulate = partial(tally.simulate, KINDS, World, length=_LENGTH, weight=_weight, rest=rest)
