"""Compare the tables with what they must hold, computed from the events without Spark or Kafka.

python -m examples.lakehouse.compare lake-data [flights]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from examples.lakehouse import settings
from examples.lakehouse.events import NEW_FIELD, Event, airports
from examples.lakehouse.events import events as all_events
from examples.lakehouse.settings import columns

_MEASURED = ("temp", "wind_speed", "visib")
_FLIGHT = columns(settings.FLIGHT_SCHEMA)
_COLUMNS = (*_FLIGHT, *_MEASURED, "origin_name", "dest_name")
_TIME = "yyyy-MM-dd'T'HH:mm:ss'Z'"


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows a table has, and how many it must have."""

    table: str
    found: int
    expected: int
    different: int  # rows that only one of the two has

    @property
    def equal(self) -> bool:
        """True if the table is as it must be, row by row."""
        return self.different == 0


def main(folder: Path, flights: int) -> int:
    """Print a line for each table; the exit code is 1 if a table differs from the events."""
    spark = settings.session(folder, "compare")
    counts = compare(spark, all_events(flights))
    spark.stop()
    for count in counts:
        verdict = "equal" if count.equal else f"{count.different:,} DIFFERENT"
        print(f"{count.table:18} {count.found:>9,} rows, {count.expected:>9,} expected: {verdict}")
    equal = all(count.equal for count in counts)
    print("All tables are equal to the events." if equal else "The tables differ from the events.")
    return 0 if equal else 1


def compare(spark: SparkSession, events: list[Event]) -> list[Count]:
    """Compare the raw tables and the enriched one with the events."""
    flight = ("carrier", "flight", "revision", NEW_FIELD)
    return [
        _raw(spark, events, settings.FLIGHTS, settings.RAW_FLIGHTS, flight),
        _raw(spark, events, settings.WEATHER, settings.RAW_WEATHER, ("origin",)),
        _enriched(spark, events),
    ]


def _raw(
    spark: SparkSession, events: list[Event], topic: str, table: str, names: tuple[str, ...]
) -> Count:
    keys = ("time_hour", *names)
    rows = _read(spark, table, keys)
    expected = Counter(
        tuple(_as_column(event, key) for key in keys) for event in events if event.topic == topic
    )
    return _count(table, rows, expected)


def _as_column(event: Event, key: str) -> object:
    value = event.fields.get(key)
    return value if value is None or key != NEW_FIELD else str(value)  # the table has it as text


def _enriched(spark: SparkSession, events: list[Event]) -> Count:
    names = dict(airports())
    newest: dict[tuple[object, ...], dict[str, object]] = {}
    weather = {}
    for event in events:
        fields = event.fields
        if event.topic == settings.WEATHER:
            weather[fields["origin"], fields["time_hour"]] = fields
            continue
        key = (fields["time_hour"], fields["carrier"], fields["flight"])
        before = newest.get(key)
        if before is None or int(str(before["revision"])) < int(str(fields["revision"])):
            newest[key] = fields
    expected: Counter[tuple[object, ...]] = Counter()
    for fields in newest.values():
        hourly = weather.get((fields["origin"], fields["time_hour"]), {})
        measured = [hourly.get(name) for name in _MEASURED]
        ends = [names.get(str(fields[end])) for end in ("origin", "dest")]
        row = (*(fields.get(name) for name in _FLIGHT), *measured, *ends)
        expected[row] += 1
    return _count(settings.ENRICHED, _read(spark, settings.ENRICHED, _COLUMNS), expected)


def _read(spark: SparkSession, table: str, names: Sequence[str]) -> Counter[tuple[object, ...]]:
    if not spark.catalog.tableExists(table):
        return Counter()
    hour = F.date_format("time_hour", _TIME).alias("time_hour")
    rows = spark.table(table).withColumn("time_hour", hour).select(*names).collect()
    return Counter(tuple(row) for row in rows)


def _count(
    table: str, stored: Counter[tuple[object, ...]], expected: Counter[tuple[object, ...]]
) -> Count:
    different = (stored - expected).total() + (expected - stored).total()
    return Count(table, stored.total(), expected.total(), different)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20_000))
