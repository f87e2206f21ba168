"""A plugin of pytest that keeps what became of each test and how long it took, for `tests.run`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

Outcome = Literal["passed", "failed", "skipped"]
ABOUT = "about"


class Record(NamedTuple):
    """What became of a test, its seconds with those of its fixtures, and its docstring's head."""

    outcome: Outcome
    seconds: float
    about: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="Write what became of each test into FILE.")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--outcomes")
    if file is not None and not is_worker(config):
        config.pluginmanager.register(_Recorder(file))


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a worker of xdist, whose reports its parent gets."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the reports say what a test proves: a worker's parent has no tests to ask."""
    docstring = getattr(getattr(item, "obj", None), "__doc__", None) or ""
    item.user_properties.append((ABOUT, docstring.strip().partition("\n")[0]))


def read(file: Path) -> dict[str, Record]:
    """What a run has written, by node id. Nothing where it wrote nothing."""
    found = json.loads(file.read_text()) if file.exists() else {}
    return {test: Record(*record) for test, record in found.items()}


def without_group(nodeid: str) -> str:
    """The node id as pytest knows it: with `--dist loadgroup` xdist adds `@` and the group."""
    end = nodeid.rfind("@")
    return nodeid[:end] if end > nodeid.rfind("]") else nodeid


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Of setup, call and teardown: a test whose teardown fails has failed."""
    return min(outcomes, key=("failed", "skipped", "passed").index)


class _Recorder:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._records: dict[str, Record] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = without_group(report.nodeid)
        about = str(dict(report.user_properties).get(ABOUT, ""))
        before = self._records.get(test, Record("passed", 0, about))
        outcome = worst((before.outcome, report.outcome))
        self._records[test] = Record(outcome, before.seconds + report.duration, about)

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._records))
