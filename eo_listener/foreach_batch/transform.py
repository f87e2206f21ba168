"""The user's transform, and what it may know of its batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS: Final = frozenset({"batchid", "batchnumber", "epochid", "epoch"})
"""What the second parameter of a function for foreachBatch is called, regardless of case and _."""

Transform: TypeAlias = "Callable[..., Any]"
"""Gets the batch's DataFrame, and as a second argument `batch`, where it has one, a `Batch`.

Returns the DataFrame to write, or a list with one for each sink.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a transform may know of the batch it is given: its number and its offsets of Kafka.

    The number is Spark's; a new checkpoint counts from 0 again, and the same offsets may come
    under another number.
    """

    id: int
    ranges: Mapping[TopicPartition, OffsetRange]
    frame: DataFrame = field(repr=False)

    @property
    def tasks(self) -> tuple[tuple[TopicPartition, OffsetRange], ...]:
        """The offsets of each task of the batch, in the order of `spark_partition_id()`.

        Raises SettingsError where a task is not one whole partition, and under Spark Connect.
        """
        from eo_listener.spark.jvm.task_ranges import task_ranges  # noqa: PLC0415  # py4j is not in every client of Spark Connect

        return task_ranges(self.frame)


def adapted(transform: Transform | None) -> Callable[[Any, PlannedBatch], Any] | None:
    """The user's transform as the steps call it. Raises SettingsError."""
    if transform is None:
        return None
    if not callable(transform):
        raise SettingsError(
            f"the transform {transform!r} cannot be called",
            fix="Give a function that takes a DataFrame and returns one",
        )
    try:
        signature = inspect.signature(transform)
    except (TypeError, ValueError):  # a callable of C shows none
        return lambda frame, _: transform(frame)
    wants = _wants_batch(transform, signature)
    return lambda frame, plan: transform(
        frame, *([Batch(id=plan.batch_id, ranges=plan.ranges(), frame=frame)] if wants else [])
    )


def _wants_batch(transform: Transform, signature: inspect.Signature) -> bool:
    """Whether a transform asks for its batch, by a second parameter or by the name `batch`."""
    named = signature.parameters.get("batch")
    for given in ((None,), (None, None)):
        asked = named is not None and named.kind is not inspect.Parameter.KEYWORD_ONLY
        if _fits(signature, *given) and not (len(given) == 1 and asked):
            wants = len(given) == 2
            break
    else:
        raise SettingsError(
            f"the transform {getattr(transform, '__name__', transform)} takes {signature}",
            fix="Give it one parameter, the DataFrame, or two: (df, batch)",
        )
    second = list(signature.parameters)[1:2]
    if wants and second and second[0].replace("_", "").lower() in _NUMBERS:
        raise SettingsError(
            f"the transform {getattr(transform, '__name__', transform)} takes {signature}: its "
            f"second parameter would be a Batch, and is called {second[0]}",
            cause="foreachBatch gives the number of the batch there, exactly_once all that a "
            "transform may know of it",
            fix="Call it batch, and use batch.id",
        )
    return wants


def _fits(signature: inspect.Signature, *given: object) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
