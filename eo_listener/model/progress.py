"""Parses Spark's progress event into typed offsets.

This module reads only the JSON of `StreamingQueryProgress`, whose form is the same from Spark 3.5
to 4.x and under Spark Connect; the Python objects built from this JSON differ.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from eo_listener.errors import FormatError
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.model.offsets_json import read_offsets
from eo_listener.offsets import Offsets

# KafkaV2[Subscribe[t]] (KafkaMicroBatchStream), KafkaSourceV1[...] if V2 readers are disabled
_KAFKA = re.compile(r"Kafka\w*\[")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """One Kafka source of a progress event.

    `index` is the source's place among *all* sources of the event. `start` is None for batch 0, and
    `end` is None if the event has no end offsets. `log_ends` are the ends of the logs when the
    batch was planned, or None if the event lacks them.
    """

    index: int
    description: str
    start: Offsets | None
    end: Offsets | None
    log_ends: Offsets | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One progress event of a query, without the sources that are not Kafka.

    `planned` is the time when Spark knew the batch's end offsets, in seconds since the epoch by the
    driver's clock: no task of the batch has read a record before that time. `planned` is None if
    the event lacks this time.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    timestamp: str
    sources: tuple[SourceProgress, ...]
    planned: float | None = None
    metrics: BatchMetrics = field(default_factory=BatchMetrics)

    @property
    def query(self) -> str:
        """The query's name, or its id if it has no name."""
        return self.name or self.query_id

    @classmethod
    def parse(cls, text: str) -> Progress:
        """Parse `text`, the JSON of `StreamingQueryProgress`. Raises FormatError."""
        try:
            event = json.loads(text)
            sources = tuple(
                _source(index, source)
                for index, source in enumerate(event["sources"])
                if _KAFKA.match(source["description"])
            )
            return cls(
                query_id=event["id"],
                run_id=event["runId"],
                name=event.get("name"),
                batch_id=int(event["batchId"]),
                timestamp=event["timestamp"],
                sources=sources,
                planned=_planned(event),
                metrics=_measures(event),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError(
                f"a progress event of Spark cannot be read ({type(error).__name__}: {error})",
                cause="this version of Spark may write it in a different form",
                fix="Report this with the Spark version; nothing is committed for this event",
            ) from error


def _planned(event: Mapping[str, Any]) -> float | None:
    fetching = (event.get("durationMs") or {}).get("latestOffset", 0)
    began = _moment(event["timestamp"])
    return None if began is None else began + float(fetching) / 1000.0


def _measures(event: Mapping[str, Any]) -> BatchMetrics:
    """Return the event's numbers for display; a missing or invalid number is None, not an error."""
    took = _number(event.get("durationMs"), "triggerExecution")
    rows = _number(event, "numInputRows")
    times = event.get("eventTime")
    return BatchMetrics(
        started=_moment(event["timestamp"]),
        seconds=None if took is None else took / 1000.0,
        rows=None if rows is None else int(rows),
        input_rows_per_second=_number(event, "inputRowsPerSecond"),
        processed_rows_per_second=_number(event, "processedRowsPerSecond"),
        newest=_event_time(times, "max"),
        watermark=_event_time(times, "watermark"),
    )


def _number(fields: Any, name: str) -> float | None:
    value = fields.get(name) if isinstance(fields, dict) else None
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _event_time(times: Any, name: str) -> float | None:
    """Return the event time `name`, or None if it is missing or is the epoch.

    The epoch is Spark's value before the first row.
    """
    text = times.get(name) if isinstance(times, dict) else None
    return _moment(text) or None


def _moment(text: Any) -> float | None:
    """Parse a time as Spark writes it; return seconds since the epoch, or None for other values."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _source(index: int, source: Mapping[str, Any]) -> SourceProgress:
    ended, latest = source.get("endOffset"), source.get("latestOffset")
    end = read_offsets(ended)
    return SourceProgress(
        index=index,
        description=source["description"],
        start=read_offsets(source.get("startOffset")),
        end=end,
        log_ends=end if latest == ended else _log_ends(latest),  # the usual case, at no cost
    )


def _log_ends(value: Any) -> Offsets | None:
    """Return the log ends in `value`, or None if they cannot be read.

    Log ends are only displayed, so unreadable ones are not an error.
    """
    try:
        return read_offsets(value)
    except (ValueError, TypeError, AttributeError):
        return None
