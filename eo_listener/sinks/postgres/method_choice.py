"""The way of each batch: the one that is wanted, if it was proved and the batch allows it."""

from __future__ import annotations

import logging
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.sinks.arrow_rows import is_far
from eo_listener.sinks.fetch_plan import planned_rows
from eo_listener.sinks.postgres.executor_check import prove
from eo_listener.sinks.postgres.executor_tasks import NoConnectionError
from eo_listener.sinks.postgres.staging import NoStagingError
from eo_listener.sinks.postgres.write_methods import (
    STAGING_ROWS,
    Choice,
    Proved,
    Ranges,
    Way,
    fit,
    missing,
)
from eo_listener.spark.jvm.task_ranges import task_ranges

if TYPE_CHECKING:
    from eo_listener.model.ledger import Entry
    from eo_listener.model.planned_batch import PlannedBatch
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter

logger = logging.getLogger("eo_listener")

_PAUSES: Final = (0.0, 60.0, 300.0)
"""Seconds until what may pass is tried again, after one, two and more times that it failed."""

_FAR = "this is a DataFrame of Spark Connect, whose executors cannot be asked"


class Chosen(NamedTuple):
    """A way. `ranges` are those of the tasks, where only some of them are to be written, or each by
    itself.
    """

    way: Way
    ranges: Ranges | None


class Choosing:
    """For the batches of one sink. What keeps one from the way that is wanted is said once."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._proved: Proved | None = None
        self._failed = 0
        self._again_at = 0.0
        self._told: set[str] = set()

    def way(
        self,
        frame: Any,
        entry: Entry,
        plan: PlannedBatch,
        *,
        writer: TransactionWriter,
        link: Connection,
    ) -> Chosen:
        """Return the way of a batch.

        The executors are tried with the first one, however small it is, and what may pass is tried
        again with later ones that they would write. Raises SettingsError where the user's way
        cannot be taken, or where the rest of a batch cannot be told from the part that is written
        already; psycopg.Error for `link`.
        """
        planned = planned_rows(plan)
        rest = self._choice.by_partition and missing(plan, entry)
        wanted = self._choice.wants(planned)
        self._prove(frame, writer, link, wanted)
        ranges = None
        if rest or wanted is Way.TASKS:
            ranges = self._ranges(frame, plan, writer.label, rest=rest)
        if wanted is Way.TASKS:
            why = _speculation(frame) if ranges is not None else None
            if why is not None:
                self._say(writer.label, f"{why}, so a batch is one transaction")
            if why is not None or ranges is None:
                wanted = Way.STAGING if planned >= STAGING_ROWS and not rest else Way.DRIVER
        against = None if self._proved is None else self._proved.against(wanted)
        if against is not None:
            if self._choice.write_method != "auto":
                raise _refused(against)
            self._say(writer.label, f"rows go through the driver: {against}")
            wanted = Way.DRIVER
        return Chosen(wanted, ranges)

    def go_back(self, error: SinkError, label: str) -> bool:
        """Take the driver's way from now on, since the chosen one failed so; False: it may not.

        For a minute or more, where what failed may pass.
        """
        if self._choice.write_method != "auto":
            return False
        before = self._proved or Proved()
        passing = isinstance(error, NoConnectionError) and error.again
        if isinstance(error, NoStagingError):
            self._proved = replace(before, staging=str(error))
        else:
            self._proved = replace(before, executors=str(error), passing=passing)
        if passing:  # not at once: the batch is repeated, and must not fail so again
            self._failed = max(self._failed, 1)
            self._pause()
        since = "for now" if passing else "from now on"
        self._say(label, f"rows go through the driver {since}: {error}")
        return True

    def _prove(self, frame: Any, writer: TransactionWriter, link: Connection, wanted: Way) -> None:
        if self._choice.write_method == "driver":
            return
        if self._proved is not None:
            wait = self._choice.write_method == "auto" and monotonic() < self._again_at
            if not self._proved.passing or wanted is Way.DRIVER or wait:
                return
        if is_far(frame):
            self._proved = Proved(executors=_FAR)
            self._told.add(f"rows go through the driver: {_FAR}")  # as the documents say
        else:
            self._proved = prove(frame.sparkSession, writer, link, self._choice)
            if self._proved.passing:
                self._pause()

    def _pause(self) -> None:
        self._again_at = monotonic() + _PAUSES[min(self._failed, len(_PAUSES) - 1)]
        self._failed += 1

    def _ranges(self, frame: Any, plan: PlannedBatch, label: str, *, rest: bool) -> Ranges | None:
        """Return the offsets of each task, None where a task is not one partition.

        Where only the `rest` of a batch is to be written, raises SettingsError instead.
        """
        try:
            ranges = task_ranges(frame)
            if fit(ranges, plan):
                return ranges
            why = "the tasks read other offsets than are planned"
        except SettingsError as error:
            why = f"{error.problem} ({error.cause})"
        if rest:
            raise SettingsError(
                f"batch {plan.batch_id} is written in part, and the rest cannot be told: {why}",
                cause='with atomicity="partition" some of its partitions were written before; the '
                "transform, or the source's options, have changed since",
                fix="Run this batch with the code that it began with, then change it",
            )
        self._say(label, f"{why}: such batches are one transaction each")
        return None

    def _say(self, label: str, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            logger.warning("%s: %s", label, text)


def _speculation(frame: Any) -> str | None:
    """Say why tasks cannot write by themselves: a second attempt would end the first, as a zombie,
    while both run.
    """
    on = (frame.sparkSession.conf.get("spark.speculation", "false") or "").lower() == "true"
    return "spark.speculation=true runs a task twice at the same time" if on else None


def _refused(against: str) -> SettingsError:
    return SettingsError(
        f'write_method="staging" cannot be used: {against}',
        cause="the executors must reach the server as the driver does, and the role may make a "
        "staging table",
        fix="Install eo-listener[postgres] there too, grant what is missing, or use "
        'write_method="driver"',
    )
