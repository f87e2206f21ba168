"""The searches: small ones for every run of the tests, and larger ones."""

from __future__ import annotations

from functools import partial

from eo_listener.commit.groups.policy import OnRewind
from eo_listener.commit.tracking.sequence_guard import GuardMode
from tests.model_checking.scope import P0, P1, Scope

_TWO = ({P0: 2, P1: 2}, {P0: 2})
_Two = partial(Scope, batches=2, steps=_TWO, ticks=1)
_ALLOW = OnRewind.ALLOW

SMALL = {
    scope.name: scope
    for scope in (
        Scope("calm", {}, ticks=2),
        Scope("crash", {"crash": 2}, batches=1, ticks=2),
        _Two("replay", {"crash": 1}),
        Scope("late", {"crash": 1, "delayed": 1}, batches=1, ticks=3),
        _Two("doubt", {"delayed": 1, "partial": 1}, ticks=2),
        Scope("blind", {"snapshot": 1}, batches=1, ticks=5),
        Scope("zombie", {"zombie": 1, "pause": 1}, batches=1, ticks=0),
        _Two("overtaken", {"zombie": 1}, ticks=0, polite=True),
        _Two("fenced", {"zombie": 1}, ticks=0, fencing=True, polite=True),
        _Two("returned", {"zombie": 1, "return": 2}, ticks=0, fencing=True),
        Scope("answers", {"lost": 1, "unanswered": 1, "missing": 1}, batches=1),
        Scope("topics", {"recreate": 1, "truncate": 1}, batches=1),
        Scope("deleted", {"delete": 1}, batches=1),
        Scope("expire", {"expire": 1, "reset": 1}, batches=1),
        Scope("members", {"members": 2}, batches=1),
        _Two("rewind", {"rewind": 1, "crash": 1}),
        _Two("again", {"rewind": 1, "restart": 1}, ticks=0),
        _Two("allow", {"rewind": 1, "crash": 1}, on_rewind=_ALLOW),
        Scope("fresh", {"fresh": 1, "crash": 1}, batches=1, ticks=2),
        _Two("latest", {"latest": 1, "crash": 1}, ticks=0),
        _Two("latest and warned", {"latest": 1, "restart": 1}, ticks=0, guard=GuardMode.WARN),
        Scope("guard", {"glitch": 1, "drop": 1}, ticks=0),
        _Two("mark", {"glitch": 1, "crash": 1}, ticks=0),
        _Two("new", {"drop": 1}, steps=({P0: 2}, {P0: 2, P1: 2})),
        _Two("shared", {}, queries=("q1", "q2"), ticks=0),
        _Two("late events", {"late": 1, "restart": 1}),
        _Two("late and mute", {"late": 1, "mute": 1}, on_rewind=_ALLOW),
        Scope("late after an end", {"late": 1, "mute": 1}, batches=1, ticks=5),
        _Two("late allowed", {"late": 1}, ticks=4, on_rewind=_ALLOW),
        Scope("late and lost", {"late": 1, "drop": 1, "glitch": 1}, ticks=0),
        _Two("twice", {"twice": 2, "drop": 1}, ticks=0),
        _Two("behind", {"crash": 1, "glitch": 1}, behind=True),
        _Two("lossy", {"forget": 1}, ticks=2, lossy=True, recommit_interval=100.0),
        _Two("warned", {"glitch": 1}, ticks=0, guard=GuardMode.WARN),
        _Two("mute", {"mute": 1, "fresh": 1}),
        _Two("anew", {"restart": 1, "fresh": 1}, ticks=0, on_rewind=_ALLOW),
    )
}

# A part of these is all that the patience of a test run reaches.
LARGE = {
    scope.name: scope
    for scope in (
        _Two("late beginnings", {"latest": 1, "crash": 1, "drop": 1, "late": 1}, behind=True),
        _Two("standstill", {"zombie": 1}, ticks=2, polite=True),
        Scope("crashes of three batches", {"crash": 2}, ticks=6),
        Scope("zombies of three batches", {"crash": 1, "zombie": 1}, ticks=5),
        Scope("two crashes and a zombie", {"crash": 2, "zombie": 1, "delayed": 1}, ticks=5),
        Scope("fenced zombies", {"crash": 1, "zombie": 2}, ticks=5, fencing=True),
        Scope("late events of three batches", {"late": 2, "restart": 1, "mute": 1}, ticks=4),
        Scope("late events of many lives", {"late": 1, "drop": 1, "crash": 1, "fresh": 1}, ticks=4),
        Scope("late after late", {"delayed": 2, "crash": 1, "snapshot": 1}, ticks=6),
        Scope("rewound zombies", {"zombie": 1, "rewind": 1}, ticks=5, on_rewind=_ALLOW),
        Scope("guard and zombies", {"glitch": 1, "drop": 1, "zombie": 1}, ticks=5),
        Scope("lossy and slow", {"forget": 1}, steps=_TWO, ticks=0, lossy=True),
    )
}
