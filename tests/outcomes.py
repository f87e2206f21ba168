"""A plugin of pytest that keeps what became of each test, for `tests.run`.

pytest -p tests.outcomes --outcomes FILE
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

Outcome = Literal["passed", "failed", "skipped"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="Write what became of each test into FILE.")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--outcomes")
    if file is not None and not hasattr(
        config, "workerinput"
    ):  # a worker of xdist tells its parent
        config.pluginmanager.register(_Recorder(file))


def read(file: Path) -> dict[str, Outcome]:
    """What a run has written: the outcome by node id. Nothing where it wrote nothing."""
    found: dict[str, Outcome] = json.loads(file.read_text()) if file.exists() else {}
    return found


def without_group(nodeid: str) -> str:
    """The node id as pytest knows it: with `--dist loadgroup` xdist adds `@` and the group."""
    end = nodeid.rfind("@")
    return nodeid[:end] if end > nodeid.rfind("]") else nodeid


class _Recorder:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._outcomes: dict[str, Outcome] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst of setup, call and teardown: a test whose teardown fails has failed."""
        if report.failed:
            self._outcomes[without_group(report.nodeid)] = "failed"
        elif report.when == "call" or report.skipped:
            outcome: Outcome = "skipped" if report.skipped else "passed"
            self._outcomes.setdefault(without_group(report.nodeid), outcome)

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._outcomes))
