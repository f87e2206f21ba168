"""Reads Spark's plan of a batch from the live query or, under Spark Connect, its checkpoint."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from eo_listener.errors import SettingsError
from eo_listener.kafka.source_logs import SourceLogs
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import GroupSnapshot, PlanReader
from eo_listener.offsets import TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.planned_batches import CheckpointPlans

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
            from eo_listener.spark.jvm.planned_batches import LivePlans  # noqa: PLC0415  # py4j is not in every client of Spark Connect
            from eo_listener.spark.jvm.shim_client import JvmShimClient  # noqa: PLC0415  # py4j is not in every client of Spark Connect

            self._logs = SourceLogs(JvmShimClient())
            self._live = LivePlans(
                self._logs.snapshot,
                lambda checkpoint, source: Checkpoint(checkpoint).initial(source),
            )
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
