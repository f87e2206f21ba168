"""Chooses the write method of each batch: the wanted method, if executors and batch allow it."""

from __future__ import annotations

import logging
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eo_listener.errors import SettingsError, SinkError
from eo_listener.sinks.arrow_rows import planned_rows
from eo_listener.sinks.postgres.executor_check import prove
from eo_listener.sinks.postgres.executor_tasks import NoConnectionError
from eo_listener.sinks.postgres.executor_writers import NoStagingError
from eo_listener.sinks.postgres.write_methods import (
    STAGING_ROWS,
    Choice,
    Proved,
    Ranges,
    WriteMethod,
    fit,
    missing,
)
from eo_listener.spark.computed_rows import is_connect
from eo_listener.spark.jvm.task_ranges import task_ranges

if TYPE_CHECKING:
    from eo_listener.model.ledger import Entry
    from eo_listener.model.planned_batch import PlannedBatch
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter

logger = logging.getLogger("eo_listener")

_PAUSES: Final = (0.0, 60.0, 300.0)
"""The seconds until the next check of the executors, after one, two and more temporary failures."""

_CONNECT = "this is a Spark Connect DataFrame, whose executors cannot be checked"


class ChosenMethod(NamedTuple):
    """A write method, and the `ranges` of the tasks if the method needs them.

    TASKS needs the ranges, and so does any method that writes the rest of a partly written batch.
    """

    method: WriteMethod
    ranges: Ranges | None


class MethodChoice:
    """Chooses the write method for a sink's batches; logs each obstacle once."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._proved: Proved | None = None
        self._failed = 0
        self._again_at = 0.0
        self._reported: set[str] = set()

    def method(
        self,
        frame: Any,
        entry: Entry,
        plan: PlannedBatch,
        *,
        writer: TransactionWriter,
        link: Connection,
    ) -> ChosenMethod:
        """Return the write method of a batch.

        The method checks the executors with the first batch, however small; after a temporary
        obstacle it checks them again with later batches that they would write. Raises SettingsError
        if the method that the user asked for cannot be used, or if the rest of a batch cannot be
        separated from the part that is already written, and psycopg.Error if `link` fails.
        """
        planned = planned_rows(plan)
        rest = self._choice.by_partition and missing(plan, entry)
        wanted = self._choice.wants(planned)
        self._prove(frame, writer, link, wanted)
        ranges = None
        if rest or wanted is WriteMethod.TASKS:
            ranges = self._ranges(frame, plan, writer.label, rest=rest)
        if wanted is WriteMethod.TASKS:
            reason = _speculation(frame) if ranges is not None else None
            if reason is not None:
                self._warn_once(writer.label, f"{reason}, so a batch is one transaction")
            if reason is not None or ranges is None:
                wanted = (
                    WriteMethod.STAGING
                    if planned >= STAGING_ROWS and not rest
                    else WriteMethod.DRIVER
                )
        obstacle = None if self._proved is None else self._proved.obstacle(wanted)
        if obstacle is not None:
            if self._choice.write_method != "auto":
                raise _refused(obstacle)
            self._warn_once(writer.label, f"rows go through the driver: {obstacle}")
            wanted = WriteMethod.DRIVER
        return ChosenMethod(wanted, ranges)

    def fall_back_to_driver(self, error: SinkError, label: str) -> bool:
        """Use the driver from now on, since the chosen method failed.

        Returns False, and changes nothing, if the user has chosen the method.

        If the failure may be temporary, the sink uses the driver only for one minute, or for five
        minutes after another temporary failure.
        """
        if self._choice.write_method != "auto":
            return False
        before = self._proved or Proved()
        passing = isinstance(error, NoConnectionError) and error.again
        if isinstance(error, NoStagingError):
            self._proved = replace(before, staging=str(error))
        else:
            self._proved = replace(before, executors=str(error), passing=passing)
        if passing:  # not at once: the repeated batch must not fail in the same way
            self._failed = max(self._failed, 1)
            self._pause()
        since = "for now" if passing else "from now on"
        self._warn_once(label, f"rows go through the driver {since}: {error}")
        return True

    def _prove(
        self, frame: Any, writer: TransactionWriter, link: Connection, wanted: WriteMethod
    ) -> None:
        if self._choice.write_method == "driver":
            return
        if self._proved is not None:
            wait = self._choice.write_method == "auto" and monotonic() < self._again_at
            if not self._proved.passing or wanted is WriteMethod.DRIVER or wait:
                return
        if is_connect(frame):
            self._proved = Proved(executors=_CONNECT)
            self._reported.add(f"rows go through the driver: {_CONNECT}")  # documented, not logged
        else:
            self._proved = prove(frame.sparkSession, writer, link, self._choice)
            if self._proved.passing:
                self._pause()

    def _pause(self) -> None:
        self._again_at = monotonic() + _PAUSES[min(self._failed, len(_PAUSES) - 1)]
        self._failed += 1

    def _ranges(self, frame: Any, plan: PlannedBatch, label: str, *, rest: bool) -> Ranges | None:
        """Return the offsets of each task, or None unless each task reads one planned partition.

        With `rest`, some partitions of the batch are already written: then the method raises
        SettingsError instead of returning None.
        """
        try:
            ranges = task_ranges(frame)
            if fit(ranges, plan):
                return ranges
            reason = "the tasks read other offsets than planned, or other sources besides Kafka"
        except SettingsError as error:
            reason = f"{error.problem} ({error.cause})"
        if rest:
            raise SettingsError(
                f"batch {plan.batch_id} is partly written, and the rest is unknown: {reason}",
                cause='with atomicity="partition" some of its partitions were written before; '
                "the transform or the source's options have changed since then",
                fix="Run this batch with the code that it began with, then change the code",
            )
        self._warn_once(label, f"{reason}: such batches are one transaction each")
        return None

    def _warn_once(self, label: str, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            logger.warning("%s: %s", label, text)


def _speculation(frame: Any) -> str | None:
    """Return why tasks cannot write partitions on their own, or None if speculation is off.

    With speculation, two attempts of a task run at the same time, and the second would end the
    first as a zombie.
    """
    on = (frame.sparkSession.conf.get("spark.speculation", "false") or "").lower() == "true"
    return "spark.speculation=true runs a task twice at the same time" if on else None


def _refused(obstacle: str) -> SettingsError:
    return SettingsError(
        f'write_method="staging" cannot be used: {obstacle}',
        cause="the executors must reach the server as the driver does, and the role must be "
        "allowed to create a staging table",
        fix="Install eo-listener[postgres] on the executors too, grant the missing "
        'privileges, or use write_method="driver"',
    )
