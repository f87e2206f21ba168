"""`exactly_once`: writes each batch of a query into each of its sinks, once."""

from __future__ import annotations

import inspect
import logging
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from eo_listener.batch_guard.judge import OnFirst, OnGap, OnRecreated
from eo_listener.errors import EoListenerError, SettingsError, SinkError
from eo_listener.events import Observer, Observers
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.process_writes import PROCESS_WRITES
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.kafka.source_logs import SourceLogs
from eo_listener.model.argument_checks import require_observers, require_seconds
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import GroupSnapshot, PlanReader, Sink
from eo_listener.observers.log import EventLogger
from eo_listener.observers.metrics.serve import CountWhereServed
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.planned_batches import CheckpointPlans
from eo_listener.spark.computed_rows import OFTEN, cached_rows, computed_rows, is_connect
from eo_listener.spark.jvm.stage_attempts import (
    LOST_SHUFFLE,
    REPEATED,
    RunStages,
    has_shuffle,
    tagged_jobs,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_SINK_TIMEOUT: Final = 5.0
"""The seconds that a batch waits for a sink, if the last batch of a stopped query still uses it."""
_PARTS: Final = ("label", "key", "per_partition", "applied", "moved_by", "apply", "close")


def exactly_once(
    *sinks: Sink,
    transform: Transform | None = None,
    name: str | None = None,
    on_gap: OnGap = "fail",
    on_first: OnFirst = "fail",
    on_recreated: OnRecreated = "fail",
    new_checkpoint: str | None = None,
    checkpoint: str | None = None,
    options: Mapping[str, str] = _NONE,
    observers: Iterable[Observer] = (),
    retry_timeout: float = 60.0,
) -> ExactlyOnce:
    """Return a function to pass to `foreachBatch`, or to call in your own function once per batch.

    `transform(df)`, or `transform(df, batch)` with a `Batch`, returns the DataFrame to write, or a
    list with one for each sink. `name` is the query's name in the ledgers, by default its name in
    Spark. `on_gap="accept"` continues after lost offsets and records them. `on_first="accept"`
    begins at the next batch of a query that has run before without this sink or under another name,
    and records the offsets before that batch as not in the ledger. `on_recreated="restart"` accepts
    a topic that was deleted and recreated, if the query reads it from its log's start, as a new
    checkpoint with `starting_offsets(..., recreated="earliest")` does. `new_checkpoint`, the value
    that a NewCheckpointError shows, confirms one checkpoint: sources that are not Kafka may
    continue in that checkpoint after the batch that was the sink's last when the error was raised.
    It accepts nothing else. `observers` get each event after the log; a listener in this process
    that serves metrics counts these events too. If a store is unavailable or locked, or reports a
    conflict, the function repeats the batch for up to `retry_timeout` seconds before the query
    fails.

    Under Spark Connect, the function cannot read the running query, so you must give `name` and
    `checkpoint`, the query's checkpointLocation. If you also give `options`, the reader's options,
    the function reads log starts and topic ids from Kafka; otherwise it does not check them.

    Raises SettingsError immediately if an argument is invalid. The returned function raises
    GuardError, SinkError, PoisonRowError, KafkaError and JvmError, and Spark then fails the query.
    """
    return ExactlyOnce(
        sinks=sinks,
        transform=transform,
        name=name,
        on_gap=on_gap,
        on_first=on_first,
        on_recreated=on_recreated,
        new_checkpoint=new_checkpoint,
        checkpoint=checkpoint,
        options=options,
        observers=tuple(observers),
        retry_timeout=retry_timeout,
    )


class ExactlyOnce:
    """Writes the batches of one query; `exactly_once` returns it.

    It can be pickled if its sinks, transform and observers can: Spark Connect sends it to a
    separate process.
    """

    def __init__(self, **arguments: Any) -> None:
        _check(arguments)
        self._arguments = {**arguments, "options": dict(arguments["options"])}  # can be pickled
        self._plans = QueryPlanReader(arguments["checkpoint"], arguments["options"])
        observers = arguments["observers"]
        self._batches = BatchRunner(
            self._plans,
            arguments["sinks"],
            DataFrames(),
            transform=adapted(arguments["transform"]),
            retry=RetryLimits(timeout=arguments["retry_timeout"]),
            observers=Observers(EventLogger(), CountWhereServed(observers), *observers),
            name=arguments["name"],
            new_checkpoint=arguments["new_checkpoint"],
            on_gap=arguments["on_gap"],
            on_first=arguments["on_first"],
            on_recreated=arguments["on_recreated"],
        )

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch to every sink that lacks it."""
        try:
            with (
                PROCESS_WRITES.exclusive(self._arguments["sinks"], _SINK_TIMEOUT),
                in_session_of(frame),
            ):
                self._batches.run(frame, batch_id)
        except EoListenerError as error:
            _show_first(error)
            raise

    def close(self) -> None:
        """Close the sinks' and Kafka's connections; they open again when they are needed."""
        self._plans.close()
        for sink in self._arguments["sinks"]:
            sink.close()

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        ExactlyOnce.__init__(self, **arguments)


def in_session_of(frame: Any) -> AbstractContextManager[None]:
    """Return a context in which the thread works in the session of `frame`, unless it is Connect's.

    Raises JvmError.
    """
    session = getattr(frame, "sparkSession", None)
    if getattr(session, "_jsparkSession", None) is None:
        return nullcontext()
    from eo_listener.spark.jvm.sessions import working_in  # noqa: PLC0415  # py4j is not in every client of Spark Connect

    return working_in(session)


def _check(arguments: Mapping[str, Any]) -> None:
    """Raise SettingsError if one of the arguments of `exactly_once` has a wrong type or value."""
    for sink in arguments["sinks"]:
        lacks = [part for part in _PARTS if not hasattr(sink, part)]
        if lacks:
            raise SettingsError(
                f"{type(sink).__name__} is not a sink: it has no {lacks[0]}",
                fix="Pass a sink, such as SqliteSink(path, table=...) or PostgresSink(dsn, "
                "table=...)",
            )
    for name in ("name", "checkpoint", "new_checkpoint"):
        value = arguments[name]
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise SettingsError(
                f"{name} is {value!r}, not a non-empty string",
                fix=f'Give a string, {name}="...", or leave it out',
            )
    if not isinstance(arguments["options"], Mapping):
        raise SettingsError("options is not a mapping", fix="Give the reader's options as a dict")
    require_seconds("retry_timeout", arguments["retry_timeout"])
    require_observers(arguments["observers"])


def _show_first(error: EoListenerError) -> None:
    """Make the traceback that Spark shows the user begin with the error's own line.

    Python prints the first cause of an exception first, and prints a cause that was never raised
    without a traceback.
    """
    headline = type(error).__new__(type(error))
    headline.__dict__.update(error.__dict__)
    headline.args = error.args
    first: BaseException = error
    visited = {id(error)}  # `raise error from error` makes an error its own cause
    while (earlier := _previous_in_traceback(first)) is not None and id(earlier) not in visited:
        visited.add(id(earlier))
        first = earlier
    first.__cause__ = headline


def _previous_in_traceback(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


_NUMBERS: Final = frozenset({"batchid", "batchnumber", "epochid", "epoch"})
"""Usual names of the second parameter of a foreachBatch function, regardless of case and `_`."""

Transform: TypeAlias = "Callable[..., Any]"
"""A function that gets the batch's DataFrame and, if it has a second parameter, a `Batch`.

It returns the DataFrame to write, or a list with one for each sink.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch that a transform gets as its second argument: its number and its Kafka offsets.

    `id` is Spark's number of the batch. A new checkpoint counts from 0 again, so the same offsets
    may then have a different number.
    """

    id: int
    ranges: Mapping[TopicPartition, OffsetRange]
    frame: DataFrame = field(repr=False)

    @property
    def tasks(self) -> tuple[tuple[TopicPartition, OffsetRange], ...]:
        """The offsets of each task of the batch, in the order of `spark_partition_id()`.

        Raises SettingsError under Spark Connect, or if a task does not read exactly one whole
        partition.
        """
        from eo_listener.spark.jvm.task_ranges import task_ranges  # noqa: PLC0415  # py4j is not in every client of Spark Connect

        return task_ranges(self.frame)


def adapted(transform: Transform | None) -> Callable[[Any, PlannedBatch], Any] | None:
    """Return the user's transform as a function of frame and plan. Raises SettingsError."""
    if transform is None:
        return None
    if not callable(transform):
        raise SettingsError(
            f"the transform {transform!r} cannot be called",
            fix="Give a function that takes a DataFrame and returns one",
        )
    try:
        signature = inspect.signature(transform)
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return lambda frame, _: transform(frame)
    wants = _wants_batch(transform, signature)
    return lambda frame, plan: transform(
        frame, *([Batch(id=plan.batch_id, ranges=plan.ranges(), frame=frame)] if wants else [])
    )


def _wants_batch(transform: Transform, signature: inspect.Signature) -> bool:
    """Return True if a transform takes a `Batch`: a second parameter, or one named `batch`."""
    batch = signature.parameters.get("batch")
    names_batch = batch is not None and batch.kind is not inspect.Parameter.KEYWORD_ONLY
    wants = names_batch or not _fits(signature, None)
    if wants and not _fits(signature, None, None):
        raise SettingsError(
            f"the transform {getattr(transform, '__name__', transform)} takes {signature}",
            fix="Give it one parameter, the DataFrame, or two: (df, batch)",
        )
    second = list(signature.parameters)[1:2]
    if wants and second and second[0].replace("_", "").lower() in _NUMBERS:
        raise SettingsError(
            f"the transform {getattr(transform, '__name__', transform)} takes {signature}: its "
            f"second parameter would receive a Batch, but is called {second[0]}",
            cause="foreachBatch passes the batch number there; exactly_once passes everything "
            "that a transform may know about the batch",
            fix="Rename it to batch, and use batch.id",
        )
    return wants


def _fits(signature: inspect.Signature, *arguments: object) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


_TRIES: Final = 3


class DataFrames:
    """Carries out a batch's operations on DataFrames, also under Connect. Raises Spark's errors."""

    def __init__(self) -> None:
        self._stages = RunStages()

    def is_frame(self, output: object) -> bool:
        """Return True for a DataFrame of Spark, not of pandas. Sends no request to Spark."""
        return any(
            kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
            for kind in type(output).__mro__
        )

    def has_shuffle(self, frame: Any) -> bool:
        """Return True if a shuffle precedes the rows of `frame`; False under Spark Connect.

        A Connect client cannot read the physical plan.
        """
        return not is_connect(frame) and has_shuffle(frame)

    def cached(self, frame: Any) -> AbstractContextManager[None]:
        """Cache the rows of `frame` while Spark computes several frames that use them."""
        return cached_rows(frame)

    @contextmanager
    def computed(self, frame: Any, source: Any, plan: PlannedBatch) -> Iterator[Any]:
        """Compute the rows of `frame` once, and yield the frame to use.

        `source` is the DataFrame of the batch, from which `frame` is made. Raises JvmError, and
        SinkError if Spark has computed a part of the rows twice.
        """
        if is_connect(frame):
            with computed_rows(frame) as rows:
                yield rows
            return
        session, batch = frame.sparkSession, (plan.run_id, plan.batch_id)
        for _ in range(_TRIES):
            with ExitStack() as stack:
                with tagged_jobs(session) as tag:
                    rows = stack.enter_context(computed_rows(frame))
                if not self._stages.have_repeated(session, batch, tag):
                    stack.callback(self._stages.skip_jobs, session)
                    yield rows
                    return
            if self.has_shuffle(source):  # each new attempt would read the same damaged shuffle
                break
        raise SinkError(
            REPEATED,
            cause=LOST_SHUFFLE,
            fix=f"Restart the query: it computes the whole batch again. {OFTEN}",
        )

    def discard(self, frame: Any) -> None:
        """Compute all rows of `frame`, and discard them."""
        frame.write.format("noop").mode("overwrite").save()


_log = logging.getLogger("eo_listener")
_PROCESS: Final = uuid.uuid4()


class QueryPlanReader:
    """Reads plans from the live query or the checkpoint, depending on the kind of DataFrame.

    Connects to nothing before the first batch.

    `checkpoint` is the query's checkpointLocation, and `options` are the options of its source. The
    class uses both only if it has no access to the live query.
    """

    def __init__(self, checkpoint: str | None, options: Mapping[str, str]) -> None:
        self._location = checkpoint
        self._options = {str(key).lower(): str(value) for key, value in options.items()}
        self._logs: SourceLogs | None = None
        self._live: PlanReader | None = None
        self._files: PlanReader | None = None
        self._reader: PlanReader | None = None  # the reader of the newest plan

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        """Read the plan of a batch.

        Raises the errors of LivePlans and CheckpointPlans, and SettingsError if neither the live
        query nor the checkpoint can be read. If reading the live query fails, the method does not
        read the checkpoint instead.
        """
        self._reader = self._of_query() if hasattr(frame, "_jdf") else self._of_files()
        return self._reader.plan(frame, batch_id)

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Return the offsets at which the query began; `plan` must be the newest plan.

        Raises the errors of LivePlans and CheckpointPlans.
        """
        return {} if self._reader is None else self._reader.began(plan)

    def close(self) -> None:
        """Close the connections to Kafka."""
        if self._logs is not None:
            self._logs.close()

    def _of_query(self) -> PlanReader:
        if self._live is None:
            from eo_listener.spark.jvm.calls import JvmShimClient  # noqa: PLC0415  # py4j is not in every client of Spark Connect
            from eo_listener.spark.jvm.planned_batches import LivePlans  # noqa: PLC0415  # py4j is not in every client of Spark Connect

            self._logs = SourceLogs(JvmShimClient())
            self._live = LivePlans(self._logs.snapshot)
        return self._live

    def _of_files(self) -> PlanReader:
        if self._location is None:
            raise SettingsError(
                "cannot determine the offsets that Spark planned for this batch",
                cause="this is Spark Connect, where the state of the query cannot be read",
                fix="Give exactly_once(..., checkpoint='the checkpointLocation', name='...')",
            )
        if self._files is None:
            snapshot: Callable[[Collection[TopicPartition]], GroupSnapshot] | None = None
            if self._options:
                self._logs = self._logs or SourceLogs()
                snapshot = partial(self._logs.snapshot, self._options)
            _log.info(
                "Under Spark Connect the sink reads planned offsets from the checkpoint %s, "
                "which must belong to this query",
                self._location,
            )
            # One id for all exactly_once(...) of a query's function: Spark Connect starts a process
            # for the function with each start of a query.
            query_id = Checkpoint(self._location).query_id()
            run_id = str(uuid.uuid5(_PROCESS, f"{os.getpid()} {query_id}"))
            self._files = CheckpointPlans(self._location, run_id, snapshot)
        return self._files
