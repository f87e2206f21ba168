"""The searches in which a query reads a counted source, alone or beside Kafka."""

from __future__ import annotations

from functools import partial

from tests.model_checking.batches.scope import Scope
from tests.model_checking.batches.spark import F0, P0
from tests.model_checking.batches.tape import How

_TWO = How(keys=("a", "b"))
_ALONE = How(per_partition=True)
_SQLITE = How(exclusive=True)
_ACCEPT = How(on_gap="accept")
_ADOPT = How(on_first="accept")
_RESTART = How(on_recreated="restart")
_LATER = ({P0: 1}, {F0: 1}, {P0: 1, F0: 1})

Files = partial(Scope, partitions=(F0,), steps=({F0: 2}, {F0: 1}))
Beside = partial(Scope, partitions=(P0, F0), steps=({P0: 1, F0: 1}, {P0: 1}, {F0: 1}))

SMALL = (
    Files("files", {"crash": 2}, batches=3),
    Files("files in doubt", {"lost": 1, "unanswered": 1, "late": 1, "away": 1, "again": 1}, 1),
    Files("zombie of files", {"zombie": 1}),
    Files("files, locked out", {"zombie": 1}, 1, how=_SQLITE),
    Files("files, two sinks", {"crash": 1, "unanswered": 1}, how=_TWO),
    Files("files, stateful", {"crash": 2}, stateful=True),
    Files("files planned again", {"crash": 2, "forgotten": 1, "produce": 1}),
    Files("files, rewind", {"crash": 1, "rewind": 2, "produce": 1}, 3, starts=4),
    Files("files, new checkpoint", {"crash": 1, "ledger": 2}, starts=5),
    Files("files, zombie, planned again", {"zombie": 1, "forgotten": 1, "produce": 1}, 1),
    Files("files, zombie, new checkpoint", {"zombie": 1, "ledger": 1}),
    Files("files, late, new checkpoint", {"late": 1, "crash": 1, "ledger": 1}),
    Files("files, careless", {"crash": 1, "ledger": 1, "careless": 1}, starts=5),
    Files("files, stranger", {"crash": 2, "ledger": 1, "stranger": 1}, starts=5),
    Files("files, restored store", {"restore": 1, "crash": 2, "ledger": 1}, 2, starts=5),
    Files("files, two sinks, one restored", {"crash": 1, "restore": 1, "ledger": 1}, how=_TWO),
    Files("files, emptied", {"empty": 1, "crash": 2}),
    Files("files, emptied, accepted", {"empty": 1, "crash": 2}, how=_ADOPT),
    Files("files, renamed", {"rename": 2, "crash": 3}, how=_ADOPT),
    Files("files, overlap", {"overlap": 1}),
    Files("files aside", {"aside": 1, "forgotten": 1, "crash": 1, "produce": 1}, 3),
    Files("files aside, accepted", {"aside": 1, "crash": 1}, 3, how=_ACCEPT),
    Beside("files beside Kafka", {"crash": 2}, batches=4),
    Beside("beside, alone", {"crash": 1, "zombie": 1}, 1, how=_ALONE),
    Beside("beside, planned again", {"crash": 1, "forgotten": 1, "produce": 1}),
    Beside("beside, new checkpoint", {"crash": 1, "ledger": 1, "stranger": 1}, starts=5),
    Beside("beside, files later", {"crash": 1, "ledger": 1}, 3, steps=_LATER, starts=4),
    Beside("beside, emptied, accepted", {"empty": 1, "crash": 1}, 3, how=_ADOPT),
    Beside("beside, two sinks", {"crash": 1, "ledger": 1}, how=_TWO, starts=4),
    Beside("beside, stateful", {"crash": 2}, 3, stateful=True),
    Beside("beside, stateful zombie", {"zombie": 1}, 1, stateful=True),
    Beside("beside, restart", {"recreate": 1, "crash": 1, "earliest": 1}, 1, how=_RESTART),
)

LARGE = (
    Files(
        "files, zombies and new checkpoints",
        {"zombie": 1, "late": 1, "ledger": 2, "stranger": 1, "restore": 1, "crash": 1},
        starts=7,
    ),
    Beside(
        "beside, two sinks and all",
        {"zombie": 1, "forgotten": 1, "unanswered": 1, "ledger": 1, "produce": 1},
        3,
        how=_TWO,
        starts=6,
    ),
)
