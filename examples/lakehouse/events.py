"""The events: real flights of New York in 2013 and the weather there, as they become known."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Final

from examples.lakehouse.settings import FLIGHTS, WEATHER
from examples.nycflights import known, number, rows

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
    for count, row in enumerate(rows("flights.csv.zip")):
        if count == flights:
            break
        hours.add((row["origin"], row["time_hour"]))
        for revision in (PLANNED, DEPARTED, ARRIVED):
            when = float(count + revision * 40)
            made.append((when, _flight(row, revision, new=count >= flights / 2)))
    position = {hour: index for index, hour in enumerate(sorted(hours, key=lambda entry: entry[1]))}
    spread = len(made) / 3 / max(1, len(position))
    for row in rows("weather.csv"):
        hour = (row["origin"], row["time_hour"])
        if hour in position:
            made.append((position[hour] * spread, _weather(row)))
    sent = []
    for when, event in made:
        late = chance.random() < 0.05
        sent.append((when + (chance.uniform(0, 2_000) if late else 0.0), event))
        if chance.random() < 0.02:
            sent.append((when + chance.uniform(0, 500), event))
    sent.sort(key=lambda entry: entry[0])
    return [event for _, event in sent]


def airports() -> list[tuple[str, str]]:
    """Code and name of each airport."""
    return [(row["faa"], row["name"]) for row in rows("airports.csv")]


def _flight(row: dict[str, str], revision: int, *, new: bool) -> Event:
    fields: dict[str, object] = {
        "time_hour": row["time_hour"],
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "revision": revision,
        "tailnum": known(row["tailnum"]),
        "origin": row["origin"],
        "dest": row["dest"],
        "distance": int(row["distance"]),
        "dep_delay": number(row["dep_delay"]) if revision >= DEPARTED else None,
        "arr_delay": number(row["arr_delay"]) if revision >= ARRIVED else None,
    }
    if new and revision >= ARRIVED:
        fields[NEW_FIELD] = number(row[NEW_FIELD])
    return Event(FLIGHTS, f"{row['carrier']}{row['flight']}", fields)


def _weather(row: dict[str, str]) -> Event:
    fields: dict[str, object] = {"origin": row["origin"], "time_hour": row["time_hour"]}
    for name in ("temp", "wind_speed", "visib"):
        text = known(row[name])
        fields[name] = None if text is None else float(text)
    return Event(WEATHER, row["origin"], fields)
