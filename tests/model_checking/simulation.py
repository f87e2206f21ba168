"""Long histories by chance, each from a seed that is named when a rule is broken."""

from __future__ import annotations

from functools import partial

from eo_listener.commit.groups.policy import OnRewind
from eo_listener.commit.tracking.sequence_guard import GuardMode
from tests.model_checking import tally
from tests.model_checking.moves import endless, weight
from tests.model_checking.rest import rest
from tests.model_checking.scope import Scope
from tests.model_checking.world import World

_LENGTH = 600  # steps of a history
_ALLOW = OnRewind.ALLOW
_ANSWERS = ("lost", "unanswered", "delayed", "missing", "partial", "snapshot")
_PROCESS = ("crash", "zombie", "restart", "pause", "drop")

_BATCHES = ("glitch", "drop", "crash", "restart")

# One of these by turns.
KINDS = (
    endless(Scope("one driver", {}), "crash", "restart", "drop", "pause", *_ANSWERS),
    endless(Scope("zombies", {}), *_PROCESS, *_ANSWERS),
    endless(Scope("fenced", {}, fencing=True), *_PROCESS, *_ANSWERS),
    endless(Scope("rewinds", {}), "rewind", "fresh", *_PROCESS, *_ANSWERS),
    endless(Scope("beginnings", {}), "latest", "restart", *_PROCESS, *_ANSWERS),
    endless(Scope("rewinds allowed", {}, on_rewind=_ALLOW), "rewind", "fresh", "crash", "restart"),
    endless(Scope("administrators", {}), "expire", "reset", "members", "crash", *_ANSWERS),
    endless(Scope("topics", {}), "recreate", "truncate", "delete", "crash", *_ANSWERS),
    endless(Scope("guard", {}), *_BATCHES, "twice"),
    endless(Scope("untold", {}), "mute", "fresh", "twice", "crash", *_ANSWERS),
    endless(Scope("behind", {}, behind=True), *_BATCHES, "twice"),
    endless(Scope("lossy", {}, lossy=True), "forget", "drop", "crash", "restart", *_ANSWERS),
    endless(Scope("guard warns", {}, guard=GuardMode.WARN), "glitch", "drop", *_PROCESS, *_ANSWERS),
    endless(Scope("two queries", {}, queries=("q1", "q2")), "crash", "drop", "pause", *_ANSWERS),
)

simulate = partial(tally.simulate, KINDS, World, length=_LENGTH, weight=weight, rest=rest)
