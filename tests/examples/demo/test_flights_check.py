"""What the proof says when rows are missing, doubled or strange, and when witnesses disagree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from examples.demo.chaos import Kill
from examples.demo.flights_check import Proof, prove
from examples.demo.read_records import DISORDERED, TORN
from examples.demo.stored_rows import ReaderReport, Rows

SOUND: dict[str, Any] = {
    "place": "SQLite",
    "ends": {0: 10, 1: 20},
    "group": {0: 10, 1: 20},
    "ledger": {0: 10, 1: 20},
    "checkpoint": {0: 10, 1: 20},
    "rows": {0: Rows(found=10, records=10), 1: Rows(found=20, records=20)},
    "whole": 30,
}


def failing(proof: Proof, produced: int = 30) -> list[str]:
    """The names of the checks that do not hold."""
    return [check.name for check in proof.checks(produced) if not check.passed]


def test_a_sound_table_passes() -> None:
    """All witnesses at the log's end, each record once."""
    proof = prove(**SOUND)
    assert failing(proof) == []
    assert proof.document()["duplicates"] == proof.document()["gaps"] == 0


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        (
            {"rows": {**SOUND["rows"], 1: Rows(found=21, records=20)}, "whole": 31},
            ["rows found = rows expected", "duplicates 0"],
        ),
        (
            {"rows": {**SOUND["rows"], 1: Rows(found=19, records=19)}, "whole": 29},
            ["rows found = rows expected", "gaps 0"],
        ),
        (
            {"rows": {**SOUND["rows"], 1: Rows(found=20, records=19)}},
            ["duplicates 0", "gaps 0"],
        ),
        ({"whole": 31}, ["rows found = rows expected", "duplicates 0"]),
        ({"group": {0: 10, 1: 19}}, ["group = ledger = checkpoint"]),
        ({"group": {0: 10, 1: None}}, ["group = ledger = checkpoint"]),
        ({"ledger": {0: 10}}, ["group = ledger = checkpoint"]),
        ({"checkpoint": {0: 9, 1: 21}}, ["group = ledger = checkpoint"]),
        (
            {key: {} for key in ("ends", "group", "ledger", "checkpoint", "rows")},
            ["duplicates 0", "group = ledger = checkpoint"],
        ),
    ],
    ids=[
        "doubled",
        "missing",
        "one doubled, one missing",
        "a stranger",
        "group behind",
        "group silent",
        "ledger silent",
        "sums that agree",
        "nothing known",
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], names: list[str]) -> None:
    """Each kind of fault fails its own check, also where sums happen to agree."""
    assert failing(prove(**{**SOUND, **wrong})) == names


def test_what_the_reader_was_shown_counts_too() -> None:
    """Each kind of fault fails its own check, and is described; no batch at all proves nothing."""
    sound = ReaderReport(rounds=9, batches=2, faults={}, first=None)
    assert failing(prove(**SOUND, report=sound)) == []
    torn = replace(sound, faults={TORN: 1}, first="torn: x")
    assert failing(prove(**SOUND, report=torn)) == ["batches whole"]
    assert "(torn: x)" in [check.found for check in prove(**SOUND, report=torn).checks(30)][4]
    assert failing(prove(**SOUND, report=replace(sound, faults={DISORDERED: 1}))) == [
        "order of each partition kept"
    ]
    assert failing(prove(**SOUND, report=replace(sound, batches=0))) == ["batches whole"]


def test_a_driver_that_lived_too_long_fails() -> None:
    """Chaos that did not come about proves nothing."""
    kills = [Kill(batch=3, caught=True), Kill(batch=5, caught=False)]
    proof = prove(**SOUND, kills=kills, kills_wanted=2)
    assert failing(proof) == []
    assert proof.checks(30)[-1].found == "2 of 2 times, in the middle of batch 3"
    assert failing(prove(**SOUND, kills=kills[:1], kills_wanted=2)) == ["driver killed (SIGKILL)"]
