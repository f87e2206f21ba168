"""Fault points do nothing, and load nothing, unless a test has armed them from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eo_listener.model import fault_points
from tests.attack.faults import Fault, environment
from tests.processes import Program, finished

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from eo_listener.model.fault_points import fault_point
for _ in range(3):
    fault_point("here")
    fault_point("there")
print("end", "tests.attack.faults" in sys.modules, flush=True)
"""


def run(faults: dict[str, Fault], log: Path, **more: str) -> subprocess.CompletedProcess[str]:
    armed = {**os.environ, **environment(faults, log), **more}
    return finished([sys.executable, "-c", PROGRAM], cwd=ROOT, env=armed)


def test_unarmed_they_load_nothing(tmp_path: Path) -> None:
    """Without the variable no module is imported, and the plan of a test has no effect."""
    ended = run({"here": Fault(do="kill")}, tmp_path / "log", EO_LISTENER_FAULT_POINTS="")
    assert ended.stdout.split() == ["end", "False"]
    assert not (tmp_path / "log").exists()


def test_a_kill_at_the_second_time(tmp_path: Path) -> None:
    """The process ends by SIGKILL at that point, and the log says how far it came."""
    ended = run({"there": Fault(do="kill", nth=2)}, tmp_path / "log")
    assert ended.returncode == -signal.SIGKILL
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == ["here 1", "there 1", "here 2", "there 2 kill"]


def test_a_stop_and_a_resume(tmp_path: Path) -> None:
    """SIGSTOP holds the whole process group until SIGCONT; then it goes on as if nothing was."""
    log = tmp_path / "log"
    faults = {"there": Fault(do="stop"), "here": Fault(do="sleep", nth=3, seconds=0.2)}
    armed = {**os.environ, **environment(faults, log)}
    with Program([sys.executable, "-c", PROGRAM], cwd=ROOT, env=armed) as process:
        process.await_that(process.frozen, 10)
        assert log.read_text().splitlines()[-1] == "there 1 stop"
        process.thaw()
        assert process.ending()[0] == 0
    assert process.lines == ["end True"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "InjectedError: here, time 1"),
        ({"EO_LISTENER_FAULT_POINTS": "tests.attack.nosuch"}, "tests.attack.nosuch"),
    ],
)
def test_what_a_hook_raises_ends_the_program(
    more: dict[str, str], said: str, tmp_path: Path
) -> None:
    """A mistyped hook too: a test that arms nothing must not pass."""
    ended = run({"here": Fault(do="raise")}, tmp_path / "log", **more)
    assert ended.returncode == 1
    assert said in ended.stderr


def test_every_point_that_is_used_is_described() -> None:
    """The list in the module's own text is complete."""
    described = (fault_points.__doc__ or "").replace(",", " ").split()
    for module in sorted((ROOT / "eo_listener").rglob("*.py")):
        parts = module.read_text().split("fault_point(")[1:]
        used = {part.split('"')[1] for part in parts if part.startswith('"')}
        assert used <= set(described), module
