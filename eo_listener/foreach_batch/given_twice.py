"""What may not be given twice: a sink, and the batch of a run with other rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from eo_listener.foreach_batch.frames import Frames
from eo_listener.foreach_batch.judgement import Judgement
from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import BatchVerdict
from eo_listener.model.ledger_place import PlacedSink
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import Sink

logger = logging.getLogger("eo_listener")


class GivenFrames:
    """The DataFrames by which each sink got a run's newest batch, or perhaps did.

    Spark gives a batch once a run; it is the user's own function that may give it again. Sinks go
    by their places among the sinks. Any thread may call `release`, the query's alone the others.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._batch: tuple[str, int] | None = None
        self._given: dict[int, list[Any]] = {}
        self._complete: set[int] = set()  # of these sinks the one frame is all that they got
        self._returned = False  # whether a call with the batch has
        self._lock = threading.Lock()

    def begin(self, plan: PlannedBatch) -> None:
        """Let go of the batch before, unless it is this one that is given again."""
        batch = plan.run_id, plan.batch_id
        with self._lock:
            if self._batch != batch:
                self._batch, self._given, self._complete = batch, {}, set()
                self._returned = False

    def end(self) -> None:
        """Note that a call has returned, so that nobody need try again."""
        self._returned = True

    def release(self) -> None:
        """Let go of the frames, and only know that there were some."""
        with self._lock:
            for frames in self._given.values():
                frames[:] = [None] * len(frames)

    def has(self, place: int) -> bool:
        """Whether the sink may have the batch, or a part of it, by this run's calls."""
        return place in self._given

    def add(self, place: int, frame: Any) -> None:
        """Note that the sink may have the batch by this frame too."""
        with self._lock:
            self._given.setdefault(place, []).append(frame)

    def remove_last(self, place: int) -> None:
        """Take the newest frame back: nothing of it can be in the sink."""
        with self._lock:
            del self._given[place][-1:]
            if not self._given[place]:
                del self._given[place]

    def complete(self, place: int, frame: Any) -> None:
        """Note that the sink has all of the batch, by this frame."""
        with self._lock:
            self._given[place] = [frame]
            self._complete.add(place)

    def check(
        self, place: int, frame: Any, plan: PlannedBatch, sink: Sink, judgement: Judgement
    ) -> None:
        """Compare `frame` with those by which the sink may have the batch, where it has it.

        Raises SettingsError where the rows are known to be others, and none of them would be
        written. Where that cannot be known it is logged, if every call has failed so far: the
        function tries again. Behind one that has returned it is refused: the function may write
        in parts.
        """
        has_all = judgement.verdict is BatchVerdict.REPLAY or place in self._complete
        if not (judgement.replayed or has_all):
            return
        same = self._compared(place, frame)
        if has_all and same == {False}:
            raise _not_written(plan, sink, "other rows")
        if has_all and self._returned and same != {True}:
            raise _not_written(plan, sink, "rows of which it cannot be known whether it has them")
        if judgement.replayed and same != {True}:
            logger.warning(
                "%s has batch %d, which exactly_once(...) is given once more in this run; whether "
                "the rows that are given now are the same cannot be known: what it has is not "
                "written again",
                sink.label,
                plan.batch_id,
            )

    def _compared(self, place: int, frame: Any) -> set[bool | None]:
        """What is known of `frame` and each that the sink was given: the same, others, or None."""
        with self._lock:
            given = {id(one): one for one in self._given[place]}
        return {
            None if one is None else self._frames.are_same(one, frame) for one in given.values()
        }


def refuse_twice(sinks: Sequence[Sink]) -> None:
    """Raise SettingsError for no sink, and for two that share a ledger, as far as that is known."""
    if not sinks:
        raise SettingsError(
            "exactly_once was given no sink",
            fix="Pass at least one: exactly_once(PostgresSink(dsn, table=...))",
        )
    named: dict[tuple[object, str], Sink] = {}
    for sink in sinks:
        place = _ledger_of(sink), sink.key
        first = named.get(place)
        named[place] = sink
        if first is None:
            continue
        problem = f"{sink.label} is named twice among the sinks"
        fix = "Name it once; to write two tables in one transaction, use apply="
        if first.label != sink.label:
            problem = f"{first.label} and {sink.label} go by one name, {sink.key!r}, in one ledger"
            fix = 'Give each a name of its own: KafkaSink(..., name="...")'
        cause = "both would share one ledger, and the second would see each batch as applied"
        raise SettingsError(problem, cause=cause, fix=fix)


def another_of_the_run(plan: PlannedBatch, sink: Sink) -> SettingsError:
    """The error for a batch that another exactly_once of this run has written to `sink`."""
    return SettingsError(
        f"{sink.label} got batch {plan.batch_id} in this run already, from another "
        "exactly_once(...)",
        cause="one foreachBatch calls two of them for one sink under one name, or two sinks "
        "of one name the same table; the second would see the batch as applied and write "
        "nothing",
        fix="Union both DataFrames, and write them by one exactly_once(...), or give each a "
        'name of its own: exactly_once(..., name="...")',
    )


def _not_written(plan: PlannedBatch, sink: Sink, rows: str) -> SettingsError:
    return SettingsError(
        f"exactly_once(...) is given batch {plan.batch_id} a second time in this run, with "
        f"{rows}: they are not written, as {sink.label} has the batch already",
        cause="one foreachBatch calls the same exactly_once(...) twice, and a sink gets each batch "
        "once; a call that raised an error may have written it all the same",
        fix="Call it once: union both DataFrames, or give it a sink for each, with a transform "
        "that returns a list; or write each by an exactly_once(...) of its own, with a name of "
        'its own: exactly_once(..., name="..."). To try again, give it the same DataFrame',
    )


def _ledger_of(sink: Sink) -> object:
    """What sinks of one ledger have in common; a topic's may have the heads of several targets."""
    place = sink.ledger_place if isinstance(sink, PlacedSink) else None
    if place is not None and not place.is_known:
        return id(sink)
    if place is None or not place.is_apart:
        return sink.label
    return place.address, frozenset(one.strip() for one in (place.servers or "").split(","))
