"""The searches: small ones for every run of the tests, and larger ones."""

from __future__ import annotations

from functools import partial

from tests.model_checking.batches import counted_scopes
from tests.model_checking.batches.scope import Scope
from tests.model_checking.batches.spark import P0, P1, U0
from tests.model_checking.batches.tape import How

_TWO = How(keys=("a", "b"))
_ALONE = How(per_partition=True)
_SQLITE = How(exclusive=True)
_ACCEPT = How(on_gap="accept")
_ADOPT = How(on_first="accept")
_ADOPT_ALONE = How(on_first="accept", per_partition=True)
_RESTART = How(on_recreated="restart")
_RESTART_TWO = How(keys=("a", "b"), on_recreated="restart")
_RESTART_ALONE = How(per_partition=True, on_recreated="restart")
_RESTART_ACCEPT = How(on_gap="accept", on_recreated="restart")
_FEW = ({P0: 1, P1: 1, U0: 1}, {P0: 1})
_IDLE = ({P0: 1}, {P1: 2}, {P0: 1, P1: 1})
_MORE = ({P0: 1, P1: 3}, {P0: 1})
_Restart = partial(Scope, how=_RESTART)
_Parts = partial(_Restart, recreated_records=(0, 2))
_One = partial(_Restart, partitions=(P0,), steps=_FEW, recreated_records=(2,))
_Other = partial(_Restart, partitions=(P0, U0), steps=_FEW)
_Twice = partial(Scope, batches=1)

SMALL = {
    scope.name: scope
    for scope in (
        Scope("calm", {}, batches=3),
        Scope("crash", {"crash": 2}, batches=3),
        Scope("answers", {"lost": 1, "unanswered": 1, "away": 1, "again": 1}),
        Scope("idle partition", {"zombie": 1}, batches=2, steps=_IDLE),
        Scope("late", {"late": 1, "crash": 1}),
        Scope("zombie", {"zombie": 1}),
        Scope("zombie in doubt", {"zombie": 1, "lost": 1}, batches=1),
        Scope("locked out", {"zombie": 1}, how=_SQLITE),
        Scope("two sinks", {"crash": 1, "unanswered": 1}, how=_TWO),
        Scope("two sinks and a zombie", {"zombie": 1}, how=_TWO),
        Scope("alone", {"crash": 1, "zombie": 1}, how=_ALONE, batches=1),
        Scope("alone in doubt", {"unanswered": 1, "late": 1, "again": 1}, how=_ALONE, batches=1),
        Scope("stateful", {"crash": 2}, stateful=True),
        Scope("stateful zombie", {"zombie": 1}, stateful=True, batches=1),
        Scope("rewind", {"crash": 1, "rewind": 1, "produce": 1}),
        Scope("forgotten", {"crash": 1, "forgotten": 1, "produce": 1}),
        Scope("ledger", {"crash": 1, "ledger": 1}),
        Scope("ledger and zombie", {"zombie": 1, "ledger": 1, "produce": 1}, batches=1),
        Scope("careless", {"crash": 1, "careless": 1}),
        Scope("careless and told so", {"crash": 1, "careless": 1}, how=_ACCEPT),
        Scope("stranger", {"crash": 2, "stranger": 1}),
        Scope("restored store", {"restore": 1, "crash": 1}),
        Scope("emptied store", {"empty": 1, "crash": 1}),
        Scope("emptied, accepted", {"empty": 1, "crash": 1}, how=_ADOPT),
        Scope("renamed", {"rename": 1, "crash": 2}),
        Scope("renamed, accepted", {"rename": 1, "crash": 2}, how=_ADOPT),
        Scope("renamed twice", {"rename": 2, "crash": 3}, how=_ADOPT),
        Scope("renamed alone", {"rename": 1, "crash": 2}, 1, how=_ADOPT_ALONE),
        Scope("overlap", {"overlap": 1}),
        Scope("overlap of SQLite", {"overlap": 1}, how=_SQLITE),
        Scope("overlap, two sinks", {"overlap": 1}, 1, how=_TWO),
        Scope("overlap alone", {"overlap": 1}, 1, how=_ALONE),
        Scope("overlap, stateful", {"overlap": 1}, 1, stateful=True),
        Scope("recreate", {"recreate": 1, "crash": 1}),
        Scope("recreate and new checkpoint", {"recreate": 1, "crash": 1, "earliest": 1}, 1),
        _Parts("restart", {"recreate": 1, "crash": 1, "earliest": 1}, 1),
        _Restart("restart twice", {"recreate": 2, "earliest": 2}, 1, steps=_FEW),
        _One("restart and zombie", {"recreate": 1, "zombie": 1, "earliest": 1}, 1),
        _Restart("restart in doubt", {"recreate": 1, "late": 1, "earliest": 1}, 1),
        _Parts("restart, accepted", {"recreate": 1, "crash": 1}, how=_RESTART_ACCEPT, steps=_MORE),
        _Twice("restart, two sinks", {"recreate": 1, "crash": 2, "earliest": 2}, how=_RESTART_TWO),
        _Twice("restart alone", {"recreate": 1, "crash": 2, "earliest": 2}, how=_RESTART_ALONE),
        _Other("restart of one", {"recreate": 1, "crash": 1, "earliest": 1}),
        _Parts("restart of fewer", {"shrink": 1, "crash": 1, "earliest": 2}, 1),
        Scope("retention", {"retention": 1, "crash": 1}),
        Scope("retention accepted", {"retention": 1, "crash": 1}, how=_ACCEPT),
        *counted_scopes.SMALL,
    )
}

# A part of these is all that fits into a test run.
LARGE = {
    scope.name: scope
    for scope in (
        Scope("crashes and zombies", {"crash": 2, "zombie": 2}, batches=3, starts=5),
        Scope("two zombies in doubt", {"zombie": 2, "lost": 1, "late": 1}, starts=4),
        Scope("three batches, two sinks", {"crash": 2, "zombie": 1, "late": 1}, 3, how=_TWO),
        Scope("alone and in doubt", {"crash": 1, "zombie": 1, "unanswered": 1}, how=_ALONE),
        Scope("stateful zombies", {"crash": 1, "zombie": 1, "late": 1}, stateful=True),
        Scope("rewound zombies", {"zombie": 1, "rewind": 1, "forgotten": 1, "ledger": 1}, 3),
        Scope("restored zombies", {"zombie": 1, "restore": 1, "crash": 1}),
        Scope("renamed often", {"crash": 3, "rename": 3, "zombie": 1}, how=_ADOPT),
        Scope("overlapping renames", {"overlap": 2, "rename": 1, "empty": 1, "crash": 1}),
        Scope("recreated zombies", {"zombie": 1, "recreate": 1, "ledger": 1}),
        _Parts("restarts and zombies", {"recreate": 2, "zombie": 1, "earliest": 2, "crash": 1}),
        _Parts(
            "restarts of fewer",
            {"recreate": 1, "shrink": 1, "earliest": 3, "crash": 1, "unanswered": 1},
            how=_RESTART_ALONE,
        ),
        _Other(
            "restarts of one of two, accepted",
            {"recreate": 2, "earliest": 1, "crash": 1, "late": 1},
            how=_RESTART_ACCEPT,
            partitions=(P0, P1, U0),
        ),
        Scope("locked out for long", {"zombie": 2, "crash": 1, "unanswered": 1}, how=_SQLITE),
        Scope("lost records", {"retention": 2, "zombie": 1, "careless": 1}, how=_ACCEPT),
        *counted_scopes.LARGE,
    )
}
