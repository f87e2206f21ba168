"""The shim as a process of its own: each way in which it may not answer. No Java: a stand-in."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.model.errors import JvmError
from eo_listener.spark import shim_process
from eo_listener.spark.java import Java
from eo_listener.spark.shim_process import ShimProcess

ECHO = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["call"] == "fail":
        print(json.dumps({"failed": "it lacks a class"}), flush=True)
    else:
        print(json.dumps({"answer": asked["argument"]}), flush=True)
"""
Start = Callable[[str], ShimProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A shim that is this program of Python instead."""
    started: list[ShimProcess] = []

    def made(program: str) -> ShimProcess:
        file = tmp_path / "java"
        file.write_text(f"#!{sys.executable}\n{program}")
        file.chmod(0o755)
        one = ShimProcess(Java(executable=file, feature=17), [Path("a.jar")])
        started.append(one)
        return one

    yield made
    for one in started:
        one.close()


def test_each_call_gets_its_answer(start: Start) -> None:
    """In their order, whatever is in them; a failure names its cause, and is not the end."""
    shim = start(ECHO)
    assert shim.call("a", '{"two":"lines\\n"}') == '{"two":"lines\\n"}'
    with pytest.raises(JvmError, match="it lacks a class"):
        shim.call("fail", "{}")
    assert shim.call("a", "ž") == "ž"


def test_one_that_ends(start: Start) -> None:
    """The call that waits for it fails, and each after it, at once."""
    shim = start("import sys; sys.stdin.readline()")
    for _ in range(2):
        with pytest.raises(JvmError, match="has ended"):
            shim.call("a", "{}")


def test_one_that_hangs(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for up to a limit, and ended by force."""
    monkeypatch.setattr(shim_process, "_LONGEST", 0.2)
    monkeypatch.setattr(shim_process, "_END", 0.2)
    with closing(start("import time; time.sleep(600)")) as shim, pytest.raises(JvmError):
        shim.call("a", "{}")
    assert shim._process is not None
    assert shim._process.returncode == -9


def test_one_that_does_not_read(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that does not fit into the pipe is waited for up to the same limit."""
    monkeypatch.setattr(shim_process, "_LONGEST", 0.5)
    shim = start("import time; time.sleep(600)")
    began = time.monotonic()
    with pytest.raises(JvmError, match="did not answer"):
        shim.call("a", "x" * 1_000_000)
    assert time.monotonic() - began < 30
    assert shim._process is not None
    assert shim._process.returncode == -9


def test_a_call_that_does_not_fit_into_the_pipe(start: Start) -> None:
    """It is written in parts, and its answer read whole."""
    assert start(ECHO).call("a", "ž" * 300_000) == "ž" * 300_000


@pytest.mark.parametrize("line", ["[0.003s][warning][cds] no", "{"])
def test_an_answer_that_is_none(line: str, start: Start) -> None:
    """What else Java prints is no answer, and what comes after it is none to the next call."""
    shim = start(f"import sys; sys.stdin.readline(); print({line!r}, flush=True); sys.stdin.read()")
    with pytest.raises(JvmError, match="no JSON"):
        shim.call("a", "{}")
    with pytest.raises(JvmError, match="has ended"):
        shim.call("a", "{}")


def test_a_late_answer_is_not_the_next_calls(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was too late is ended."""
    monkeypatch.setattr(shim_process, "_LONGEST", 0.2)
    shim = start(
        "import time\nfor _ in range(2): input(); time.sleep(0.5); print('{}', flush=True)"
    )
    with pytest.raises(JvmError, match="did not answer"):
        shim.call("a", "{}")
    monkeypatch.setattr(shim_process, "_LONGEST", 5.0)
    with pytest.raises(JvmError, match="has ended"):
        shim.call("a", "{}")


def test_one_that_is_not_there() -> None:
    """And nothing is started before the first call."""
    shim = ShimProcess(Java(executable=Path("/nosuch/java"), feature=17), [])
    with pytest.raises(JvmError):
        shim.call("a", "{}")
    shim.close()
