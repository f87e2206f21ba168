"""Completion in a shell, as somebody uses it who presses Tab in bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent


def in_bash(script: str, home: Path) -> list[str]:
    """The lines that bash prints, with our command on its path."""
    answer = subprocess.run(
        ["/bin/bash", "--norc", "-c", script],
        env={**os.environ, "HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return answer.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("eo-listener pre", ["preflight"]),
        ("eo-listener ledger re", ["rename"]),
        ("eo-listener group rewind --from-c", ["--from-checkpoint"]),
        ("eo-listener audit --ledger sq", ["sqlite:", "sqlite:FILE"]),
        ("eo-listener ledger show ice", ["iceberg:", "iceberg:CATALOG.NAMESPACE.TABLE"]),
        ("eo-listener group seed g --from-ledger de", ["delta:", "delta:TABLE", "delta:/PATH"]),
        ("eo-listener group seed g --missing l", ["latest", "leave"]),
        ("eo-listener follow --mode t", ["transactional"]),
        ("eo-listener handover g --to s", ["spark"]),
        ("eo-listener audit --checkpoint /tm", []),  # then the shell completes files
        ("eo-listener status -b localhost:9092 flights", []),
    ],
)
def test_tab_completes(words: str, completed: list[str], tmp_path: Path) -> None:
    """Commands, options and their values; of groups and topics nothing, and Kafka is not asked."""
    typed = words.split(" ")
    pressed = (
        'eval "$(eo-listener --show-completion bash)"; '
        f"COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; "
        '_eo_listener_completion eo-listener; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert [line for line in in_bash(pressed, tmp_path) if line] == completed


def test_it_is_installed_for_new_shells(tmp_path: Path) -> None:
    """In a file of its own, which ~/.bashrc reads; twice is as good as once."""
    for _ in range(2):
        in_bash("eo-listener --install-completion; true", tmp_path)
    script = tmp_path / ".bash_completions" / "eo-listener.sh"
    assert (tmp_path / ".bashrc").read_text().count(str(script)) == 1
    assert "complete " in script.read_text()
