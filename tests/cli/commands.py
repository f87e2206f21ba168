"""Run commands that print one JSON document: in this process, or in one of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from eo_listener import cli
from eo_listener.errors import EoListenerError
from tests.processes import Program, finished


def invoke(*words: object) -> Result:
    """Run a command in this process; the error that would end it is raised."""
    answer = CliRunner().invoke(cli.app, [*map(str, words)])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


def document_of(*words: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(invoke(*words, "--json").stdout)
    return document


def error_of(*words: object) -> EoListenerError:
    with pytest.raises(EoListenerError) as raised:
        invoke(*words)
    return raised.value


def run_here(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    """Run a command in this process: its exit code, and its document."""
    code = cli.app([*map(str, words), "--json"], standalone_mode=False)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code or 0, document


def run_apart(folder: Path, *words: object) -> tuple[int, dict[str, Any]]:
    """Run a command in `folder`, with no part of this process's Spark."""
    ended = ended_apart(folder, *words, "--json")
    assert ended.stdout, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, document


def ended_apart(
    folder: Path, *words: object, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """The same, and how it ended; `before` is a program that starts it."""
    environment = {key: value for key, value in os.environ.items() if "PYSPARK" not in key}
    command = [*before, sys.executable, "-m", "eo_listener", *words]
    return finished(command, cwd=folder, env=environment)


def under_permissions() -> tuple[str, ...]:
    """What starts a program that permissions of files hold for, even as root; or skip the test."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may read every file here, and there is no setpriv to take that away")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


class Watching(Program):
    """A `status --watch` of its own: a JSON document for each reading."""

    def __init__(self, servers: str, *words: str, every: float = 0.2) -> None:
        of_watch = ["-b", servers, "--json", "--watch", every]
        super().__init__([sys.executable, "-m", "eo_listener", "status", *words, *of_watch])
        self._read = 0

    def readings(self) -> Iterator[dict[str, Any]]:
        """Those that nobody has read yet, as they come."""
        while True:
            self.await_that(lambda: len(self.lines) > self._read, 60)
            self._read += 1
            yield json.loads(self.lines[self._read - 1])

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next one that is as it is wanted."""
        return next(filter(wanted, self.readings()))
