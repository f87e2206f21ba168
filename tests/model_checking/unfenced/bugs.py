"""Bugs planted in the sink without transactions, to see whether the histories show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from eo_listener.sinks.kafka import ordered_rows, task_rows, unfenced, unfenced_batch
from eo_listener.sinks.kafka.batch_records import BatchKey, BatchRecord
from eo_listener.sinks.kafka.ordered_rows import OrderedRows
from eo_listener.sinks.kafka.tail import Findings
from eo_listener.sinks.kafka.task_rows import TaskRows
from eo_listener.sinks.kafka.unfenced import UnfencedBatch
from eo_listener.sinks.kafka.unfenced_batch import Places
from eo_listener.sinks.kafka.unfenced_rows import RowsTarget
from tests.model_checking.bugs import Bug
from tests.model_checking.unfenced.tasks import Tasks

_write, _begin, _begun = OrderedRows.write, unfenced_batch.begin, UnfencedBatch.write_begun
_applied, _leave_out = UnfencedBatch.write_applied, Tasks.leave_out
_places = count()


class _First(dict[str, Any]):
    """Says of the first rows that they are there, whichever they are."""

    def __init__(self, there: Places) -> None:
        super().__init__(there)
        self.left = len(there)

    def pop(self, values: str, default: Any = None) -> Any:
        self.left -= 1
        return values if self.left >= 0 else default


def _by_count(self: OrderedRows, target: RowsTarget, there: Places) -> int:
    """As many rows are left out as are there, the first ones."""
    written = _write(self, target, _First(there))
    there.clear()
    return written


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
    order = "ascending" if next(_places) % 2 else "descending"
    return frame.sort_by([(name, order) for name in names])


def _anywhere(values: str, partitions: int) -> int:
    """A row without a key goes where there is room."""
    return next(_places) % partitions


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


def _early(self: OrderedRows, target: RowsTarget, there: Places) -> int:
    """The batch is applied while its rows are under way."""
    flush, target.producer.flush = target.producer.flush, lambda timeout=None: None  # type: ignore[method-assign]  # for one call
    try:
        return _write(self, target, there)
    finally:
        target.producer.flush = flush  # type: ignore[method-assign]  # as it was


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


def _tasks_by_count(self: Tasks, batch: str, identities: Places) -> None:
    """As many rows are left out as are there, the first ones."""
    _leave_out(self, batch, _FirstOnes(identities))


BUGS = (
    Bug("skip by count", "crash, one behind", ((OrderedRows, "write", _by_count),)),
    Bug(
        "ends stored after the rows",
        "crash",
        (
            (UnfencedBatch, "write_begun", _ends_after),
            (UnfencedBatch, "write_applied", _begun_and_applied),
        ),
    ),
    Bug("ends of each try", "crash", ((unfenced_batch, "begin", _new_ends),)),
    Bug("number of each try", "crash", ((unfenced_batch, "begin", _new_number),)),
    Bug("order not fixed", "crash", ((ordered_rows, "in_order", _any_order),)),
    Bug("no key, any partition", "crash, one behind", ((ordered_rows, "place_of", _anywhere),)),
    Bug("targets not checked", "zombie", ((unfenced_batch, "check_finished", _nothing_found),)),
    Bug("late rows not judged", "late row", ((unfenced_batch, "check_finished", _nothing_found),)),
    Bug("one record for all runs", "zombie, crash", ((unfenced, "BatchKey", _one_key),)),
    Bug("heads not written", "crash", ((UnfencedBatch, "_heads_to_write", _no_heads),)),
    Bug("other drivers not seen", "zombie", ((UnfencedBatch, "_others", _nobody),)),
    Bug("later attempts accepted", "task dies", ((task_rows, "refuse_repeated", _ended),)),
    Bug("tasks not waited for", "task outlives", ((TaskRows, "_await_end", _not_waited),)),
    Bug("tasks, order not fixed", "tasks, crash", ((ordered_rows, "in_order", _any_order),)),
    Bug("tasks, skip by count", "tasks, crash", ((Tasks, "leave_out", _tasks_by_count),)),
    Bug("late rows of tasks", "task zombie", ((unfenced_batch, "check_finished", _nothing_found),)),
    Bug("rows not waited for", "crash, one behind", ((OrderedRows, "write", _early),)),
)
