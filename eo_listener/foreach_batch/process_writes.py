"""Tracks the writes of this process: the sinks in use, and the ledgers that each run writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NoReturn

from eo_listener.errors import SettingsError, few
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.ledger_place import place_of
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import Sink

_KEPT: Final = 1000  # runs; a run with that many newer runs has had its first batch


class WriteTarget(NamedTuple):
    """The label of a sink, and the key of a query in the sink's ledger."""

    label: str
    key: LedgerKey


@dataclass(slots=True)
class _Run:
    """The ledgers that a run has read, and the writers of its newest batch, by ledger."""

    names: set[LedgerKey] = field(default_factory=set)
    batch_id: int | None = None
    writers: dict[WriteTarget, object] = field(default_factory=dict)


class ProcessWrites:
    """Coordinates several `exactly_once(...)` of one process. Any thread may use it.

    A sink writes one batch at a time, whichever query the batch belongs to. Within a run, one
    ledger of one sink has one writer for each batch: the rows of a second writer would count as
    already applied. A writer is any object that stands for a sink of an `exactly_once(...)`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_use: set[int] = set()  # by `id`: a user's sink need not be hashable
        self._runs: dict[str, _Run] = {}

    @contextmanager
    def exclusive(self, sinks: Sequence[Sink], timeout: float) -> Iterator[None]:
        """Reserve `sinks` for one batch; wait up to `timeout` seconds for other batches to end.

        Raises SettingsError if another batch still uses one of the sinks.
        """
        sink_ids = {id(sink) for sink in sinks}
        with self._changed:
            if not self._changed.wait_for(lambda: not sink_ids & self._in_use, timeout):
                busy = [sink.label for sink in sinks if id(sink) in self._in_use]
                raise SettingsError(
                    "two queries run at the same time with the same exactly_once(...), or with "
                    f"the same sink: {few(busy)}",
                    cause="a sink writes one batch at a time: its connections, and what it has "
                    "read of its ledger, belong to that batch",
                    fix="Call exactly_once(...) for each query, with sinks of its own",
                )
            self._in_use |= sink_ids
        try:
            yield
        finally:
            with self._changed:
                self._in_use -= sink_ids
                self._changed.notify_all()

    def add_name(self, run_id: str, key: LedgerKey) -> None:
        """Record that a run uses `key` in a ledger.

        One function may call several `exactly_once(...)`, each with its own name or table: a name
        that one of them uses is not a former name of another.
        """
        with self._changed:
            self._run(run_id).names.add(key)

    def names(self, run_id: str) -> frozenset[LedgerKey]:
        """Return the ledger keys that a run uses."""
        with self._changed:
            run = self._runs.get(run_id)
            return frozenset(run.names if run else ())

    def claim_replay(
        self, plan: PlannedBatch, target: WriteTarget, writer: object, *, in_this_run: bool
    ) -> bool:
        """Claim a batch that the ledger already has; return False if it belongs to another writer.

        Set `in_this_run` if this run has moved one of the batch's heads. If no writer is known in
        that case, a sink with another label has moved the head, and the batch belongs to that sink.
        """
        with self._changed:
            writers = self._writers(plan)
            claimant = writers.get(target)
            if claimant is not writer and (claimant is not None or in_this_run):
                return False
            writers[target] = writer
            return True

    def begin_write(self, plan: PlannedBatch, target: WriteTarget, writer: object) -> bool:
        """Claim a batch that `writer` is about to write; return True if nobody had claimed it."""
        with self._changed:
            writers = self._writers(plan)
            is_new = target not in writers
            writers.setdefault(target, writer)
            return is_new

    def end_write(self, plan: PlannedBatch, target: WriteTarget, writer: object | None) -> None:
        """Record the writer of a batch; a `writer` of None removes the claim of `begin_write`."""
        with self._changed:
            self._writers(plan).pop(target, None)
            if writer is not None:
                self._writers(plan)[target] = writer

    def _run(self, run_id: str) -> _Run:
        run = self._runs.setdefault(run_id, _Run())
        while len(self._runs) > _KEPT:
            del self._runs[next(iter(self._runs))]
        return run

    def _writers(self, plan: PlannedBatch) -> dict[WriteTarget, object]:
        run = self._run(plan.run_id)
        if run.batch_id != plan.batch_id:
            run.batch_id, run.writers = plan.batch_id, {}
        return run.writers


PROCESS_WRITES: Final = ProcessWrites()


def refuse_shared_ledgers(sinks: Sequence[Sink]) -> None:
    """Raise SettingsError if there is no sink, or if two sinks are known to share a ledger."""
    if not sinks:
        raise SettingsError(
            "exactly_once was given no sink",
            fix="Pass at least one: exactly_once(PostgresSink(dsn, table=...))",
        )
    named: dict[tuple[object, str], Sink] = {}
    for sink in sinks:
        place = _ledger_identity(sink), sink.key
        first = named.get(place)
        named[place] = sink
        if first is None:
            continue
        problem = f"{sink.label} appears twice among the sinks"
        fix = "Pass it once; to write two tables in one transaction, use apply="
        if first.label != sink.label:
            problem = (
                f"{first.label} and {sink.label} have the same name, {sink.key!r}, in one ledger"
            )
            fix = 'Give each a name of its own: KafkaSink(..., name="...")'
        cause = "both would share one ledger, and the second would see each batch as applied"
        raise SettingsError(problem, cause=cause, fix=fix)


def refuse_second_call(plan: PlannedBatch) -> NoReturn:
    """Raise SettingsError for a second call with a batch, after a call that returned."""
    raise SettingsError(
        f"exactly_once(...) was called a second time with batch {plan.batch_id}, after a call "
        "that returned: the second call wrote nothing",
        cause="a foreachBatch function calls the same exactly_once(...) twice, but a sink "
        "takes each batch once",
        fix="(1) Call it once: union the DataFrames, or pass a sink for each and a transform "
        "that returns a list. (2) Or write each DataFrame with an exactly_once(...) of its "
        'own, under its own name: exactly_once(..., name="...")',
    )


def second_writer(plan: PlannedBatch, sink: Sink) -> SettingsError:
    """Return the error for a batch that another exactly_once of this run has written to `sink`."""
    return SettingsError(
        f"{sink.label} already got batch {plan.batch_id} in this run, from another "
        "exactly_once(...)",
        cause="a foreachBatch function calls two exactly_once(...) for one sink under one name, or "
        "two sinks of one name write the same table; the second would see the batch as "
        "applied and write nothing",
        fix="Union both DataFrames and write them with one exactly_once(...), or give each a "
        'name of its own: exactly_once(..., name="...")',
    )


def _ledger_identity(sink: Sink) -> object:
    """Return a value that is equal for sinks that share a ledger.

    If the ledger is a topic, sinks with different targets may share it.
    """
    place = place_of(sink)
    if place is not None and not place.is_known:
        return id(sink)
    if place is None or not place.is_apart:
        return sink.label
    return place.address, frozenset(server.strip() for server in (place.servers or "").split(","))
