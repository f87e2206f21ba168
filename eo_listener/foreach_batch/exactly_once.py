"""`exactly_once`: writes each batch of a query into each of its sinks, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from eo_listener.batch_guard.judge import OnFirst, OnGap, OnRecreated
from eo_listener.errors import EoListenerError, SettingsError
from eo_listener.events import Observer, Observers
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.data_frames import DataFrames
from eo_listener.foreach_batch.plan_reader import QueryPlanReader
from eo_listener.foreach_batch.process_writes import PROCESS_WRITES
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.model.argument_checks import require_observers, require_seconds
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import Sink
from eo_listener.observers.log import EventLogger
from eo_listener.observers.metrics.serve import CountWhereServed
from eo_listener.offsets import OffsetRange, TopicPartition

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
