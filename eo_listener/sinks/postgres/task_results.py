"""What a task on an executor has done, or why it has not, brought to the driver as a row.

An error that is raised in a task comes back as text in Spark's own words; and Spark repeats the
task, which a refused row or a moved ledger does not deserve.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, cast

from eo_listener.model import errors
from eo_listener.model.errors import (
    EoListenerError,
    GuardError,
    PoisonRowError,
    RetriableSinkError,
    SinkError,
)
from eo_listener.model.offsets import OffsetRange, TopicPartition

COLUMNS: Final = "task int, attempt long, rows long, dead long, failure string"


class NoConnectionError(SinkError):
    """A task has got no connection, and has written nothing; `again`: it may get one later."""

    again = False

    @classmethod
    def of(cls, error: SinkError, *, again: bool) -> NoConnectionError:
        """For what connecting has raised."""
        made = cls(error.problem, cause=error.cause, fix=error.fix)
        made.again = again
        return made

    def plain(self) -> SinkError:
        """Return what connecting has raised."""
        kind = RetriableSinkError if self.again else SinkError
        return kind(self.problem, cause=self.cause, fix=self.fix)


class NotSentError(SinkError):
    """The work cannot be sent to the executors; nothing was written."""


_KINDS: Final = {
    kind.__name__: kind
    for kind in (*vars(errors).values(), NoConnectionError)
    if isinstance(kind, type) and issubclass(kind, EoListenerError)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One attempt of one task; `failure` is None where it has done its work."""

    task: int
    attempt: int
    rows: int = 0
    dead_letters: int = 0
    failure: EoListenerError | None = None

    def row(self) -> dict[str, list[Any]]:
        """The columns of COLUMNS, one value each."""
        said = None if self.failure is None else json.dumps(_told(self.failure))
        values = {
            "task": self.task,
            "attempt": self.attempt,
            "rows": self.rows,
            "dead": self.dead_letters,
        }
        return {**{name: [value] for name, value in values.items()}, "failure": [said]}

    @classmethod
    def of(cls, row: Any) -> TaskResult:
        """Read a row of COLUMNS."""
        failure = None if row["failure"] is None else _read(json.loads(row["failure"]))
        return cls(
            task=row["task"],
            attempt=row["attempt"],
            rows=row["rows"],
            dead_letters=row["dead"],
            failure=failure,
        )


def _told(error: EoListenerError) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": type(error).__name__,
        "problem": error.problem,
        "cause": error.cause,
        "fix": error.fix,
    }
    if isinstance(error, PoisonRowError):
        told |= {"partition": error.partition, "offset": error.offset}
    if isinstance(error, NoConnectionError):
        told["again"] = error.again
    if isinstance(error, GuardError):
        told["ranges"] = [[*tp, *span] for tp, span in error.ranges.items()]
    return told


def _read(told: dict[str, Any]) -> EoListenerError:
    kind = _KINDS[told.pop("kind")]
    problem = told.pop("problem")
    if told.get("partition") is not None:
        told["partition"] = TopicPartition(*told["partition"])
    if "ranges" in told:
        told["ranges"] = {
            TopicPartition(topic, partition): OffsetRange(start, until)
            for topic, partition, start, until in told["ranges"]
        }
    again = told.pop("again", None)
    error = kind(problem, **told)
    return error if again is None else NoConnectionError.of(cast("SinkError", error), again=again)
