"""`make campaign` goes on where it was stopped, and its report hides nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import RECORD, Result, newest, read, report
from tests.outcomes import Outcome
from tests.processes import Program
from tests.waiting import until

ROOT = Path(__file__).parents[1]


def result(test: str, outcome: Outcome | None, commit: str = "new", campaign: int = 1) -> Result:
    return Result(campaign=campaign, commit=commit, test=test, outcome=outcome, seconds=1800)


def test_a_report_names_what_is_of_another_commit() -> None:
    """A pass of an older commit is not one of this commit; a failure is named with its commit."""
    tests = ["x.py::a", "x.py::b", "x.py::c", "y.py::d[::]", "y.py::e"]
    results = {
        "x.py::a": result("x.py::a", "passed"),
        "x.py::b": result("x.py::b", "passed", "old"),
        "x.py::c": result("x.py::c", "failed", "old"),
        "y.py::d[::]": result("y.py::d[::]", "skipped"),
        "y.py::gone": result("y.py::gone", "passed"),
    }
    rows = [line.split() for line in report(tests, results, "new")]
    assert rows == [
        ["total", "passed", "older", "failed", "skipped", "left", "hours", "commits"],
        ["x.py", "3", "1", "1", "1", "0", "0", "1.50", "new", "old"],
        ["y.py", "2", "0", "0", "0", "1", "1", "0.50", "new"],
        ["all", "5", "1", "1", "1", "1", "1", "2.00", "new", "old"],
        ["FAILED", "x.py::c", "on", "old"],
    ]


def test_a_half_written_line_harms_no_other(tmp_path: Path) -> None:
    """A process that was killed while it wrote loses that result, and none before or after."""
    record = tmp_path / "new" / "record.jsonl"
    first, last = result("a", "passed"), result("b", "failed")
    first.append(record)
    with record.open("a") as file:
        file.write('{"campaign": 1, "comm')
    last.append(record)
    assert read(record) == [first, last]


TESTS = """
import pathlib, pytest, time
here = pathlib.Path(__file__).parent

@pytest.mark.campaign
@pytest.mark.parametrize("word", ["a b", "x::y", "[@]"])
def test_passes(word):
    with (here / "runs").open("a") as file:
        file.write(word + ".")

@pytest.mark.campaign
def test_is_killed():
    while (here / "wait").exists():
        (here / "begun").touch()
        time.sleep(0.05)

@pytest.mark.campaign
def test_fails_once():
    first = not (here / "failed").exists()
    (here / "failed").touch()
    assert not first

def test_is_none_of_the_campaign():
    raise AssertionError
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with five tests of a campaign."""
    (tmp_path / "test_sample.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = campaign\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def commit(folder: Path) -> None:
    somebody = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    git(folder, *somebody, "commit", "--quiet", "--allow-empty", "--message", "x")


def start(folder: Path, *arguments: str) -> Program:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    words = [sys.executable, "-m", "tests.campaign", *arguments]
    return Program(words, cwd=folder, env={**clean, "PYTHONPATH": str(ROOT)})


def run(folder: Path, *arguments: str, code: int = 0) -> list[str]:
    with start(folder, *arguments) as process:
        assert process.ending(seconds=120)[0] == code, process.lines
    return process.lines


def counts(folder: Path) -> tuple[int, int, int]:
    """How many have passed in the newest campaign, on how many commits; how many have failed."""
    results = newest(read(folder / RECORD))[1].values()
    passed = [one.commit for one in results if one.outcome == "passed"]
    return len(passed), len(set(passed)), sum(one.outcome == "failed" for one in results)


@pytest.mark.timeout(600)  # it starts pytest ten times
def test_a_campaign_goes_on_after_a_kill_and_over_commits(folder: Path) -> None:
    """A kill loses the running test; a pass is kept, a failure repeated; `--new` begins anew."""
    (folder / "wait").touch()
    with start(folder):
        until((folder / "begun").exists)
    (folder / "wait").unlink()
    assert counts(folder) == (3, 1, 0)
    commit(folder)
    run(folder, code=1)  # one fails
    assert counts(folder) == (4, 2, 1)
    run(folder)
    assert counts(folder) == (5, 2, 0)
    assert (folder / "runs").read_text() == "a b.x::y.[@]."
    run(folder, "--new", "-k", "passes", "--minutes", "0")
    assert counts(folder) == (1, 1, 0)
    run(folder, "--jobs", "2")
    assert counts(folder) == (5, 1, 0)
    table = [line.split() for line in run(folder, "--report")]
    assert table[-1][:7] == ["all", "5", "5", "0", "0", "0", "0"]
