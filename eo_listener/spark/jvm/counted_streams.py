"""Streams of a live query that are not Kafka: which can be counted, and what tells their plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eo_listener.model.counted_sources import CountedSources
from eo_listener.model.errors import JvmError, SettingsError
from eo_listener.spark.checkpoint.errors import Unreadable
from eo_listener.spark.checkpoint.log_files import plan_id
from eo_listener.spark.jvm.running_query import RunningQuery, class_name

_FORGETFUL: Final = frozenset({"TextSocketMicroBatchStream", "MemoryStream"})
"""Spark's own that keep records in memory alone: after a restart a batch would have none."""


def refuse_forgetful(streams: Mapping[int, Any]) -> None:
    """Raise SettingsError for a stream that cannot give the records of a batch twice."""
    for index, stream in streams.items():
        name = class_name(stream).rpartition(".")[2]
        if name in _FORGETFUL:
            raise SettingsError(
                f"source {index} of the query cannot read a batch a second time ({name})",
                cause="it keeps in memory alone what it was sent, so a batch that is repeated "
                "after a restart would be empty, and count as applied",
                fix="Bring its records into Kafka or into files first, and read these",
            )


def has_offset(progress: Any, streams: Mapping[int, Any]) -> bool:
    """Whether one of Spark's StreamProgress has an offset of a stream."""
    return any(progress.get(stream).isDefined() for stream in streams.values())


def counted_sources(
    query: RunningQuery, streams: Mapping[int, Any], batch_id: int
) -> CountedSources | None:
    """Those of `streams` that have an offset in the batch that runs; None where none has one."""
    ends = query.execution.availableOffsets()
    indices = tuple(index for index, one in streams.items() if ends.get(one).isDefined())
    if not indices:
        return None
    before = _plan_id(query, batch_id - 1) if batch_id else None
    return CountedSources(indices=indices, plan_id=_plan_id(query, batch_id), before=before)


def _plan_id(query: RunningQuery, batch_id: int) -> str:
    """That of a batch. Spark keeps the newest two in memory, and here says them as in the file."""
    log = query.execution.offsetLog()
    found = log.get(batch_id)
    if not found.isDefined():
        raise _unknown(batch_id, "the checkpoint lacks it")
    written = query.jvm.java.io.ByteArrayOutputStream()
    log.serialize(found.get(), written)
    try:
        return plan_id(str(written.toString("UTF-8")))
    except Unreadable as error:
        raise _unknown(batch_id, "it has an unknown form") from error


def _unknown(batch_id: int, why: str) -> JvmError:
    return JvmError(
        f"what Spark has planned for batch {batch_id} is not known",
        cause=f"of offsets/{batch_id}: {why}",
        fix="Restore the checkpoint; if it is whole, report this with the Spark version",
    )
