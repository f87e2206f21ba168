"""Events of rows in several versions, the delete for good last, and the table they must leave."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

COLUMNS = "id, version, op, word, amount, topic, partition, offset"
SCHEMA = "id long, version long, op string, word string, amount double"
UPSERT = {
    "mode": "upsert",
    "keys": ("id",),
    "version_column": "version",
    "delete_when": "op = 'd'",
}

_MOST = 12  # versions of a key
_SHOWN = 5


class Version(NamedTuple):
    """One event: a version of the row `id`; `op` is "u" or "d"."""

    id: int
    version: int
    op: str
    word: str
    amount: float | None

    def value(self) -> str:
        return json.dumps(self._asdict(), separators=(",", ":"))


class Sent(NamedTuple):
    """An event, and the partition that it goes to."""

    partition: int
    event: Version


def events(count: int, partitions: int, seed: int) -> list[Sent]:
    """So many events, in the order in which they are sent; equal in each run."""
    chance = random.Random(seed)
    timed: list[tuple[float, Sent]] = []
    key = 0
    while len(timed) < count:
        timed += _of_key(key, partitions, chance)[: count - len(timed)]
        key += 1
    timed.sort(key=lambda one: one[0])
    return [sent for _, sent in timed]


def table(sent: Iterable[Sent], topic: str) -> dict[int, set[tuple[object, ...]]]:
    """The row of each key that is left; some, where an event was sent twice: either will do."""
    newest: dict[int, tuple[Version, set[tuple[object, ...]]]] = {}
    ends: dict[int, int] = {}
    for partition, event in sent:
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        row = (*event, topic, partition, offset)
        there = newest.get(event.id)
        if there is None or there[0].version < event.version:
            newest[event.id] = (event, {row})
        elif there[0].version == event.version:
            there[1].add(row)
    return {key: rows for key, (event, rows) in newest.items() if event.op == "u"}


def differences(
    rows: Sequence[tuple[object, ...]], expected: Mapping[int, set[tuple[object, ...]]]
) -> list[str]:
    found: dict[object, tuple[object, ...]] = {}
    wrong = []
    for row in rows:
        key = row[0]
        if key in found:
            wrong.append(f"twice: {row}, {found[key]}")
        found[key] = row
    wrong += [f"not deleted: {found[key]}" for key in found.keys() - expected.keys()]
    wrong += [f"lost: {expected[key]}" for key in expected.keys() - found.keys()]
    wrong += [
        f"{found[key]} in place of {wanted}"
        for key, wanted in expected.items()
        if key in found and found[key] not in wanted
    ]
    return [*wrong[:_SHOWN], f"{len(wrong)} in all"] if wrong else []


def _of_key(key: int, partitions: int, chance: random.Random) -> list[tuple[float, Sent]]:
    """The events of a key, each with the time at which it is sent, from 0 to some more than 1."""
    ends_deleted = chance.random() < 0.1
    home = chance.randrange(partitions) if ends_deleted else None
    at, made = chance.random(), []
    versions = chance.randint(1, _MOST)
    for version in range(versions):
        last = version == versions - 1
        op = "d" if not last and chance.random() < 0.1 else "u"
        amount = None if chance.random() < 0.1 else chance.randrange(10_000) / 4
        event = Version(key, version, op, f"{key}-{version}", amount)
        made += _sent(event, at, home, partitions, chance)
        at += chance.expovariate(50)
    if ends_deleted:
        gone = Version(key, versions, "d", "", None)
        made.append((max(when for when, _ in made) + 0.001, Sent(made[0][1].partition, gone)))
    return made


def _sent(
    event: Version, at: float, home: int | None, partitions: int, chance: random.Random
) -> list[tuple[float, Sent]]:
    """An event, on time or late, once or twice."""
    late = chance.uniform(0, 0.3) if chance.random() < 0.05 else 0.0
    times = [at + late]
    if chance.random() < 0.02:
        times.append(at + chance.uniform(0, 0.1))
    return [
        (when, Sent(chance.randrange(partitions) if home is None else home, event))
        for when in times
    ]
