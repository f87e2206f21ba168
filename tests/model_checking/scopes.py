"""The searches: small ones for every run of the tests, and larger ones."""

from __future__ import annotations

from eo_listener.commit.groups.policy import OnRewind
from eo_listener.commit.tracking.sequence_guard import GuardMode
from tests.model_checking.scope import P0, P1, Scope

_TWO = ({P0: 2, P1: 2}, {P0: 2})

SMALL = {
    scope.name: scope
    for scope in (
        Scope("calm", {}, ticks=2),
        Scope("crash", {"crash": 2}, batches=1, ticks=2),
        Scope("replay", {"crash": 1}, batches=2, steps=_TWO, ticks=1),
        Scope("late", {"crash": 1, "delayed": 1}, batches=1, ticks=3),
        Scope("doubt", {"delayed": 1, "partial": 1}, batches=2, steps=_TWO, ticks=2),
        Scope("blind", {"snapshot": 1}, batches=1, ticks=5),
        Scope("zombie", {"zombie": 1, "pause": 1}, batches=1, ticks=0),
        Scope("overtaken", {"zombie": 1}, batches=2, steps=_TWO, ticks=0, polite=True),
        Scope("fenced", {"zombie": 1}, batches=2, steps=_TWO, ticks=0, fencing=True, polite=True),
        Scope("answers", {"lost": 1, "unanswered": 1, "missing": 1}, batches=1),
        Scope("topics", {"recreate": 1, "truncate": 1}, batches=1),
        Scope("deleted", {"delete": 1}, batches=1),
        Scope("expire", {"expire": 1, "reset": 1}, batches=1),
        Scope("members", {"members": 2}, batches=1),
        Scope("rewind", {"rewind": 1, "crash": 1}, batches=2, steps=_TWO, ticks=1),
        Scope("again", {"rewind": 1, "restart": 1}, batches=2, steps=_TWO, ticks=0),
        Scope(
            "allow",
            {"rewind": 1, "crash": 1},
            batches=2,
            steps=_TWO,
            ticks=1,
            on_rewind=OnRewind.ALLOW,
        ),
        Scope("fresh", {"fresh": 1, "crash": 1}, batches=1, ticks=2),
        Scope("guard", {"glitch": 1, "drop": 1}, ticks=0),
        Scope("mark", {"glitch": 1, "crash": 1}, batches=2, steps=_TWO, ticks=0),
        Scope("new", {"drop": 1}, batches=2, steps=({P0: 2}, {P0: 2, P1: 2}), ticks=1),
        Scope("shared", {}, batches=2, steps=_TWO, queries=("q1", "q2"), ticks=0),
        Scope("late events", {"late": 1, "restart": 1}, batches=2, steps=_TWO, ticks=1),
        Scope(
            "late and mute",
            {"late": 1, "mute": 1},
            batches=2,
            steps=_TWO,
            ticks=1,
            on_rewind=OnRewind.ALLOW,
        ),
        Scope("late after an end", {"late": 1, "mute": 1}, batches=1, ticks=5),
        Scope("late allowed", {"late": 1}, batches=2, steps=_TWO, on_rewind=OnRewind.ALLOW),
        Scope("late and lost", {"late": 1, "drop": 1, "glitch": 1}, ticks=0),
        Scope("twice", {"twice": 2, "drop": 1}, batches=2, steps=_TWO, ticks=0),
        Scope("behind", {"crash": 1, "glitch": 1}, batches=2, steps=_TWO, ticks=1, behind=True),
        Scope("lossy", {"forget": 1}, batches=2, steps=_TWO, ticks=2, lossy=True),
        Scope("warned", {"glitch": 1}, batches=2, steps=_TWO, ticks=0, guard=GuardMode.WARN),
        Scope("mute", {"mute": 1, "fresh": 1}, batches=2, steps=_TWO, ticks=1),
        Scope(
            "anew",
            {"restart": 1, "fresh": 1},
            batches=2,
            steps=_TWO,
            ticks=0,
            on_rewind=OnRewind.ALLOW,
        ),
    )
}

# A part of these is all that the patience of a test run reaches.
LARGE = {
    scope.name: scope
    for scope in (
        Scope("standstill", {"zombie": 1}, batches=2, steps=_TWO, ticks=2, polite=True),
        Scope("crashes of three batches", {"crash": 2}, ticks=6),
        Scope("zombies of three batches", {"crash": 1, "zombie": 1}, ticks=5),
        Scope("two crashes and a zombie", {"crash": 2, "zombie": 1, "delayed": 1}, ticks=5),
        Scope("fenced zombies", {"crash": 1, "zombie": 2}, ticks=5, fencing=True),
        Scope("late events of three batches", {"late": 2, "restart": 1, "mute": 1}, ticks=4),
        Scope("late events of many lives", {"late": 1, "drop": 1, "crash": 1, "fresh": 1}, ticks=4),
        Scope("late after late", {"delayed": 2, "crash": 1, "snapshot": 1}, ticks=6),
        Scope("rewound zombies", {"zombie": 1, "rewind": 1}, ticks=5, on_rewind=OnRewind.ALLOW),
        Scope("guard and zombies", {"glitch": 1, "drop": 1, "zombie": 1}, ticks=5),
        Scope("lossy and slow", {"forget": 1}, steps=_TWO, ticks=0, lossy=True),
    )
}
