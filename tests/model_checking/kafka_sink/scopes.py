"""The searches of the Kafka sink: small ones for every run of the tests, and larger ones."""

from __future__ import annotations

from tests.model_checking.kafka_sink.scope import Scope
from tests.model_checking.kafka_sink.tape import ONE_TASK, SinkHow

_TASK = SinkHow(layout=ONE_TASK)
_DRIVER = SinkHow(method="driver")
# Two drivers at once that also try again are more than a moment can search.
_ONCE = SinkHow(method="driver", repeats=False)
_TASK_ONCE = SinkHow(layout=ONE_TASK, repeats=False)

SMALL = {
    scope.name: scope
    for scope in (
        Scope("calm", {}, 3, fine=True),
        Scope("crash", {"crash": 1}, 2),
        Scope("crashes", {"crash": 2}, 1, sink=_TASK),
        Scope("answers", {"lost": 1, "unanswered": 1, "late": 1, "away": 1}, 1),
        Scope("late", {"late": 1, "crash": 1}, 1),
        Scope("zombie", {"zombie": 1}, 1, sink=_ONCE, starts=1),
        Scope("overlap", {"overlap": 1}, 1, sink=_ONCE, starts=1),
        Scope("twice", {"twice": 1}, 2),
        Scope("executor", {"executor": 1, "orphan": 3}, 1),
        Scope("speculation", {"speculation": 1, "orphan": 3}, 1),
        Scope("stage", {"stage": 1, "orphan": 3}, 1),
        Scope("orphans", {"crash": 1, "orphan": 4}, 1),
        Scope("polite", {"polite": 1}, 1),
        Scope("timeout", {"timeout": 2}, 1, sink=_TASK),
        Scope("expire", {"expire": 1, "crash": 1}, 2, sink=_TASK),
        Scope("foreign", {"foreign": 1, "blocked": 1, "crash": 1}, 1, sink=_TASK),
        Scope("epochs", {"crash": 1, "orphan": 3}, 2, sink=_TASK, longest=1),
        Scope("driver", {"crash": 1, "torn": 1}, 1, sink=_DRIVER),
        Scope("driver in doubt", {"late": 1, "twice": 1}, 1, sink=_DRIVER),
        Scope("unverified", {"executor": 1, "orphan": 3}, 1, verifies=False),
        Scope("unverified crash", {"crash": 1, "orphan": 4}, 1, verifies=False),
        Scope("unverified driver", {"torn": 1, "crash": 1}, 1, sink=_DRIVER, verifies=False),
    )
}

# A part of these is all that fits into a test run.
LARGE = {
    scope.name: scope
    for scope in (
        Scope("crashes and zombies", {"crash": 2, "zombie": 1, "orphan": 3}, starts=4),
        Scope("zombies, one by one", {"zombie": 1}, 1, sink=_DRIVER),
        Scope("zombies in doubt", {"zombie": 2, "lost": 1, "late": 1}, 1, sink=_TASK),
        Scope("zombie and tasks", {"zombie": 1, "executor": 1, "orphan": 4}, 1),
        Scope("overlaps", {"overlap": 1, "crash": 1, "twice": 1}, 1, sink=_TASK),
        Scope("foreign overlap", {"foreign": 1, "overlap": 1}, 1, sink=_ONCE, starts=1),
        Scope("zombie of tasks", {"zombie": 1}, 1, sink=_TASK_ONCE, starts=1),
        Scope("two drivers", {"overlap": 1}, 1, sink=_DRIVER, starts=1),
        Scope("overlapping drivers", {"overlap": 2, "late": 1, "torn": 1}, 1, sink=_DRIVER),
        # Two late repetitions of InitProducerId fence a batch twice, and it fails with
        # ForeignWriterError, though nobody else is there. So one of them.
        Scope("twice and late", {"twice": 1, "late": 1, "crash": 1}, 1, sink=_TASK),
        Scope("lost executors", {"executor": 2, "stage": 1, "orphan": 6, "crash": 1}, 1),
        Scope("foreign zombies", {"foreign": 2, "zombie": 1, "blocked": 1, "crash": 1}, sink=_TASK),
        Scope("expired", {"expire": 1, "zombie": 1, "timeout": 1}, sink=_TASK),
        Scope("few epochs", {"crash": 2, "zombie": 1, "timeout": 1}, sink=_TASK, longest=1),
        Scope("unverified tasks", {"crash": 1, "executor": 1, "orphan": 6}, verifies=False),
        Scope(
            "unverified zombies", {"zombie": 1, "torn": 2, "late": 1}, sink=_DRIVER, verifies=False
        ),
        Scope("each marker", {"crash": 1, "unanswered": 1, "foreign": 1}, fine=True, sink=_TASK),
    )
}
