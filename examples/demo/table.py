"""What the table holds, read from outside while the driver writes it, and counted at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eo_listener.model.errors import UnavailableError
from examples.demo.demo_settings import TABLE, TOPIC
from examples.demo.demo_target import DemoTarget
from examples.demo.results import Delay
from examples.demo.stored_rows import Rows, StoredRows

_CANCELLED: Final = "sum(CASE WHEN dep_delay IS NULL THEN 1 ELSE 0 END)"
_DELAYS: Final = f"""
    SELECT origin, hour, count(*), {_CANCELLED}, avg(dep_delay) FROM {TABLE} GROUP BY origin, hour
"""  # noqa: S608  # our own name


class Table(StoredRows):
    """The flights in the table, as they were read last."""

    def __init__(self, target: DemoTarget) -> None:
        super().__init__()
        self._target = target

    def read(self) -> None:
        """Read again; what was read last stays when the table is not there, or not available."""
        try:
            with self._target.connection() as connection:
                found = connection.execute(_DELAYS).fetchall()
        except (UnavailableError, self._target.errors):
            return  # the next read is near
        self.delays = tuple(_delay(*row) for row in found)

    def count(self, ends: Mapping[int, int]) -> tuple[dict[int, Rows], int]:
        """Count the rows of each partition, up to where its log ends; and all rows there are."""
        mark = self._target.placeholder
        text = f"""
            SELECT count(*), count(DISTINCT "offset") FROM {TABLE}
            WHERE topic = {mark} AND "partition" = {mark} AND "offset" >= 0 AND "offset" < {mark}
        """  # noqa: S608  # our own names
        counted = {}
        with self._target.connection() as connection:
            for partition, end in ends.items():
                found, records = connection.execute(text, (TOPIC, partition, end)).fetchone()
                counted[partition] = Rows(found=found, records=records)
            (whole,) = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # noqa: S608  # our own name
        return counted, whole


def _delay(origin: str, hour: int, flights: int, cancelled: int, minutes: Any) -> Delay:
    return Delay(
        origin=origin,
        hour=hour,
        flights=flights,
        cancelled=int(cancelled),
        minutes=None if minutes is None else float(minutes),
    )
