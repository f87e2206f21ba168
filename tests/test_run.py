"""How `make test` judges a run: a test that failed once is never passed over in silence."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.outcomes import Outcome, without_group
from tests.processes import finished
from tests.run import judge

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("beside", "alone", "again", "code", "counts"),
    [
        ({"a": "passed"}, {}, {}, 0, (1, 0, 0)),
        ({"a": "passed"}, {"b": "failed"}, {}, 1, (1, 1, 0)),
        ({"a": "failed"}, {}, {"a": "failed"}, 1, (0, 1, 0)),
        ({"a": "failed"}, {}, {}, 1, (0, 1, 0)),
        ({"a": "failed"}, {}, {"a": "skipped"}, 1, (0, 1, 0)),
        ({"a": "failed", "b": "skipped"}, {}, {"a": "passed"}, 0, (1, 0, 1)),
        (
            {"a": "failed", "b": "failed", "c": "passed"},
            {"d": "passed"},
            {"a": "passed", "b": "passed"},
            1,
            (2, 2, 0),
        ),
    ],
)
def test_what_failed_decides(
    beside: dict[str, Outcome],
    alone: dict[str, Outcome],
    again: dict[str, Outcome],
    code: int,
    counts: tuple[int, int, int],
) -> None:
    """Failed twice, or alone: red. Failed beside the others only: named, and red from two on."""
    verdict = judge(beside, alone, again)
    assert verdict.code == code
    assert tuple(map(int, re.findall(r"\d+", verdict.lines[-1]))) == counts
    named = {line.split()[-1] for line in verdict.lines[:-1]}
    failed = {test for test, outcome in {**beside, **alone}.items() if outcome == "failed"}
    assert failed <= named
    assert not named & ({*beside, *alone} - failed)


TESTS = """
import pathlib, pytest, time
seen = pathlib.Path(__file__).with_name("seen")

@pytest.fixture
def slow():
    time.sleep(0.2)
    yield
    time.sleep(0.2)

def test_steady(slow):
    "Its fixture is slow."

def test_racy():
    first = not seen.exists()
    seen.touch()
    assert not first

@pytest.mark.alone
def test_that_needs_the_machine(request):
    assert not hasattr(request.config, "workerinput")
"""


@pytest.mark.parametrize(
    ("select", "code", "said"),
    [
        ("test_", 0, ["PASSED ONLY ALONE", "::test_racy", "tests: 3 passed, 0 failed, 0 skipped"]),
        ("nosuch", 5, []),
    ],
)
def test_a_run_with_a_race_names_it(
    select: str, code: int, said: list[str], tmp_path: Path
) -> None:
    """Two workers, one test that fails once and one that is run alone: the last lines tell."""
    (tmp_path / "test_sample.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, "-m", "tests.run", "--jobs", "2", "-q", "-k", select]
    answer = finished(command, cwd=tmp_path, env={**clean, "PYTHONPATH": str(ROOT)})
    assert answer.returncode == code, answer.stdout + answer.stderr
    ending = answer.stdout.partition("== how it went")[2]
    for words in said:
        assert words in ending, answer.stdout
    if code == 0:
        lines = [line.strip() for line in ending.splitlines()]
        seconds, test = lines[lines.index("Its fixture is slow.") - 1].split()
        assert (float(seconds) >= 0.4, test) == (True, "test_sample.py::test_steady")
        assert lines[-1] == said[-1]


@pytest.mark.parametrize(
    ("nodeid", "known"),
    [
        ("tests/a.py::test_b@tests/a.py-1", "tests/a.py::test_b"),
        ("tests/a.py::test_b[x@y]@tests/a.py", "tests/a.py::test_b[x@y]"),
        ("tests/a.py::test_b[x@y]", "tests/a.py::test_b[x@y]"),
        ("tests/a.py::test_b", "tests/a.py::test_b"),
    ],
)
def test_a_test_keeps_its_name_in_a_group(nodeid: str, known: str) -> None:
    """What failed beside the others is run again by the name that pytest knows."""
    assert without_group(nodeid) == known
