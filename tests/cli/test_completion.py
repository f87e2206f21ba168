"""Completion in a shell, as somebody uses it who presses Tab in bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from tests.processes import finished

PROGRAMS = Path(sys.executable).parent
TYPED: list[tuple[str, list[str]]] = [
    ("eo-listener pre", ["preflight"]),
    ("eo-listener ledger re", ["rename"]),
    ("eo-listener group rewind --from-c", ["--from-checkpoint"]),
    ("eo-listener audit --ledger sq", ["sqlite:", "sqlite:FILE"]),
    ("eo-listener ledger show ice", ["iceberg:", "iceberg:CATALOG.NAMESPACE.TABLE"]),
    ("eo-listener group seed g --from-ledger de", ["delta:", "delta:TABLE", "delta:/PATH"]),
    ("eo-listener group seed g --missing l", ["latest", "leave"]),
    ("eo-listener follow --mode t", ["transactional"]),
    ("eo-listener status -b localhost:9092 flights", []),
]
"""What is typed, and what is offered for its last word; of groups nothing: Kafka is not asked."""
FILES = "eo-listener audit --checkpoint /tm"
"""Here the shell completes files."""
SOME = [TYPED[at] for at in (1, 3, 6, -1)]
"""One of each kind, since a shell takes seconds."""


def lines_of(home: Path, *command: str) -> list[str]:
    """What a shell prints, with our command on its path and a home of the test's own."""
    own = {"HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    own |= {"XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share"}
    how = {"cwd": home, "env": {**os.environ, **own}, "stdin": subprocess.DEVNULL}
    return finished(command, check=True, **how).stdout.splitlines()


def in_bash(script: str, home: Path) -> list[str]:
    return lines_of(home, "/bin/bash", "--norc", "-c", script)


@pytest.mark.parametrize(("words", "completed"), [*TYPED, (FILES, [])])
def test_what_is_offered(words: str, completed: list[str]) -> None:
    """Commands, options and their values; nothing for a file, which the shell completes itself."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    answer = CliRunner().invoke(
        app, prog_name="eo-listener", env={"_EO_LISTENER_COMPLETE": "complete_bash", **asked}
    )
    assert answer.stdout.split() == completed


def test_tab_completes_in_bash(tmp_path: Path) -> None:
    """What is offered, each on a line of its own."""
    pressed = "".join(
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; COMPREPLY=(); "
        '_eo_listener_completion eo-listener; echo "${COMPREPLY[@]}"; '
        for words, _ in SOME
    )
    shown = in_bash(f'eval "$(eo-listener --show-completion bash)"; {pressed}', tmp_path)
    assert [line.split() for line in shown] == [completed for _, completed in SOME]


def test_it_is_installed_for_new_shells(tmp_path: Path) -> None:
    """In a file of its own, which ~/.bashrc reads; twice is as good as once."""
    for _ in range(2):
        in_bash("eo-listener --install-completion; true", tmp_path)
    script = tmp_path / ".bash_completions" / "eo-listener.sh"
    assert (tmp_path / ".bashrc").read_text().count(str(script)) == 1
    assert "complete " in script.read_text()
