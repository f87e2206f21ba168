"""The input: 336,776 real flights that left New York's airports in 2013."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from examples.nycflights import known, number, rows

TOTAL: Final = 336_776

# The schema with which Spark reads `Flight.to_json`.
SCHEMA: Final = (
    "scheduled string, hour int, origin string, dest string, carrier string, flight int,"
    " tailnum string, dep_delay int, arr_delay int, distance int"
)


class Flight(NamedTuple):
    """One flight. Delays are in minutes, and None for one that was cancelled.

    `hour` is the scheduled hour of departure in New York; `scheduled` is the time in UTC.
    """

    scheduled: str
    hour: int
    origin: str
    dest: str
    carrier: str
    flight: int
    tailnum: str | None
    dep_delay: int | None
    arr_delay: int | None
    distance: int

    def to_json(self) -> str:
        """Return the value of its Kafka record: one compact JSON object."""
        return json.dumps(self._asdict(), separators=(",", ":"))


def load() -> list[Flight]:
    """Return all flights in the order of their scheduled departure."""
    flights = [
        Flight(
            scheduled=f"{row['time_hour'][:14]}{int(row['minute']):02}Z",
            hour=int(row["hour"]),
            origin=row["origin"],
            dest=row["dest"],
            carrier=row["carrier"],
            flight=int(row["flight"]),
            tailnum=known(row["tailnum"]),
            dep_delay=number(row["dep_delay"]),
            arr_delay=number(row["arr_delay"]),
            distance=int(row["distance"]),
        )
        for row in rows("flights.csv.zip")
    ]
    flights.sort(key=lambda flight: flight.scheduled)  # stable: ties keep the file's order
    return flights
