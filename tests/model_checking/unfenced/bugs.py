"""Bugs planted in the sink without transactions, to see whether the histories show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

from eo_listener.sinks.kafka import task_rows, unfenced
from eo_listener.sinks.kafka.ledger import BatchKey, BatchRecord
from eo_listener.sinks.kafka.task_rows import Places, TaskRows
from eo_listener.sinks.kafka.unfenced import Findings, UnfencedBatch
from tests.model_checking.bugs import Bug
from tests.model_checking.unfenced.tasks import Tasks
from tests.sinks.kafka import made_up_tasks

_begin, _begun = unfenced.begin, UnfencedBatch.write_begun
_applied, _leave_out = UnfencedBatch.write_applied, Tasks.leave_out
_orders = count()
_places = Random(20261128)


def _ends_after(self: UnfencedBatch, record: BatchRecord) -> None:
    """Nothing is stored before the rows."""


def _begun_and_applied(self: UnfencedBatch, record: BatchRecord) -> None:
    _begun(self, record)
    _applied(self, record)


def _new_ends(entry: Any, before: BatchRecord | None, *how: Any) -> BatchRecord:
    """A replay stores ends of its own."""
    made = _begin(entry, None, *how)
    return made if before is None else replace(_begin(entry, before, *how), since=made.since)


def _new_number(entry: Any, before: BatchRecord | None, *how: Any) -> BatchRecord:
    """A replay has a number of its own, and takes nothing over."""
    made = _begin(entry, None, *how)
    return made if before is None else replace(made, number=before.number + 1)


def _any_order(frame: pa.Table, names: Sequence[str]) -> pa.Table:
    """Every second try has its rows the other way round."""
    order = "ascending" if next(_orders) % 2 else "descending"
    return frame.sort_by([(name, order) for name in names])


def _anywhere(values: str, partitions: int) -> int:
    """A row without a key goes anywhere; drawn, so that no order of the tests hides it."""
    return _places.randrange(partitions)


def _nothing_found(*what: Any) -> Findings:
    return Findings()


def _one_key(sink: str, query: str, run: str) -> Any:
    """All runs have one record."""
    return BatchKey(sink, query, "")


def _no_heads(self: UnfencedBatch, query: str) -> tuple[()]:
    """The heads of a batch are never written."""
    return ()


def _nobody(self: UnfencedBatch) -> None:
    """Another driver that has begun is no reason to stop."""
    self.heads.count_written(self.entry.query, self._partition)


def _ended(*what: Any) -> None:
    """Any attempt will do."""


def _not_waited(self: TaskRows, batch: str) -> None:
    """Tasks of a try that has failed are left to themselves."""


class _FirstOnes(dict[str, Any]):
    """Has the first that are asked for, whichever they are."""

    def __init__(self, there: Places) -> None:
        super().__init__(there)
        self.left = len(there)

    def __contains__(self, values: object) -> bool:
        self.left -= 1
        return self.left >= 0


def _by_count(self: Tasks, batch: str, identities: Places) -> None:
    """As many rows are left out as are there, the first ones."""
    _leave_out(self, batch, _FirstOnes(identities))


BUGS = (
    Bug("skip by count", "crash", ((Tasks, "leave_out", _by_count),)),
    Bug(
        "ends stored after the rows",
        "crash",
        (
            (UnfencedBatch, "write_begun", _ends_after),
            (UnfencedBatch, "write_applied", _begun_and_applied),
        ),
    ),
    Bug("ends of each try", "crash", ((unfenced, "begin", _new_ends),)),
    Bug("number of each try", "crash", ((unfenced, "begin", _new_number),)),
    Bug("order not fixed", "crash", ((made_up_tasks, "in_order", _any_order),)),
    Bug("no key, any partition", "crashes, one behind", ((made_up_tasks, "place_of", _anywhere),)),
    Bug("targets not checked", "zombie", ((unfenced, "check_finished", _nothing_found),)),
    Bug("late rows not judged", "late row", ((unfenced, "check_finished", _nothing_found),)),
    Bug("one record for all runs", "zombie, crash", ((unfenced, "BatchKey", _one_key),)),
    Bug("heads not written", "crash", ((UnfencedBatch, "_heads_to_write", _no_heads),)),
    Bug("other drivers not seen", "zombie", ((UnfencedBatch, "_foreign_records", _nobody),)),
    Bug("later attempts accepted", "task dies", ((task_rows, "refuse_repeated", _ended),)),
    Bug("tasks not waited for", "task outlives", ((TaskRows, "_await_end", _not_waited),)),
    Bug("late rows of tasks", "task zombie", ((unfenced, "check_finished", _nothing_found),)),
)
